"""`native`, and everything that falls back to it, decides exactly as vLLM's own class does."""

from __future__ import annotations

import pytest
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

import radixflow
from radixflow.engine.scheduler import rewritten
from radixflow.errors import ConfigError, PolicyError, UnsupportedError
from radixflow.simulate.rig import build_scheduler, vllm_config


def test_native_runs_vllms_own_unedited_function(make_bench, tokens, monkeypatch):
    calls = []
    original = VllmScheduler.schedule
    monkeypatch.setattr(VllmScheduler, "schedule", lambda self, *a: calls.append(self) or original(self, *a))
    bench = make_bench("native")
    bench.add("A", tokens("a", 48))
    bench.step()
    assert bench.scheduler.controller is None
    assert calls == [bench.scheduler]


def test_the_rewritten_function_is_not_vllms(make_bench, tokens, monkeypatch):
    bench = make_bench("radixflow")

    def refuse(self, throttle_prefills=False):
        raise AssertionError("vLLM's own schedule() was called")

    monkeypatch.setattr(VllmScheduler, "schedule", refuse)
    bench.add("A", tokens("a", 48))
    assert bench.step() == {"A": 48}


def test_caching_off_is_one_warning_and_inert_hooks(make_bench, tokens, logged):
    bench = make_bench("radixflow", block_size=16, caching=False, settings={"wait_ms": 5})
    bench.add("A", tokens("a", 64))
    bench.add("B", tokens("a", 64))
    assert bench.step() == {"A": 64, "B": 64}
    (warning,) = logged("WARNING")
    assert "--enable-prefix-caching" in warning
    assert bench.scheduler.controller is None


def test_a_model_without_recurrent_state_is_told_so(make_bench, tokens, logged):
    bench = make_bench("radixflow", family="attention", block_size=16)
    assert any("no recurrent state" in message for message in logged("INFO"))
    shared = tokens("shared", 64)
    bench.add("A", shared)
    bench.add("B", [*shared, *tokens("b", 16)])
    # On full attention a sibling shares its producer's round.
    assert bench.step() == {"A": 64, "B": 16}


def test_the_block_size_below_which_nothing_is_shared_is_said(make_bench, logged):
    make_bench("radixflow", block_size=528)
    assert any("one block of 528 tokens" in message for message in logged("INFO"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pipeline_parallel_size": 2}, "pipeline_parallel_size is 2.*--pipeline-parallel-size 1"),
        ({"kv_connector": "ExampleConnector"}, "kv_connector is 'ExampleConnector'.*--kv-transfer-config"),
    ],
)
def test_an_engine_not_shown_right_is_refused_with_what_to_change(options, message):
    config = vllm_config(settings={"policy": "radixflow"}, **options)
    with pytest.raises(UnsupportedError, match=message):
        build_scheduler(radixflow.Scheduler, config)


@pytest.mark.parametrize(
    ("attribute", "message"), [("is_encoder_decoder", "encoder-decoder"), ("is_diffusion", "diff")]
)
def test_a_model_family_not_shown_right_is_refused(monkeypatch, attribute, message):
    from types import SimpleNamespace

    from radixflow.engine.support import check_configuration

    model = SimpleNamespace(is_encoder_decoder=False, is_diffusion=False)
    setattr(model, attribute, True)
    config = SimpleNamespace(
        parallel_config=SimpleNamespace(pipeline_parallel_size=1), kv_transfer_config=None, model_config=model
    )
    with pytest.raises(UnsupportedError, match=message):
        check_configuration(config)


def test_bad_settings_are_refused_at_start_up():
    with pytest.raises(ConfigError, match=r"'wait_ms' is 500.*0\.0\.\.100\.0"):
        build_scheduler(radixflow.Scheduler, vllm_config(settings={"wait_ms": 500}))
    with pytest.raises(PolicyError, match="'planed', which is unknown; presets"):
        build_scheduler(radixflow.Scheduler, vllm_config(settings={"policy": "planed"}))


def test_settings_come_from_the_environment_where_the_flag_is_absent(monkeypatch):
    monkeypatch.setenv("RADIXFLOW_CONFIG", '{"policy": "flex"}')
    assert build_scheduler(radixflow.Scheduler, vllm_config()).recorder.preset == "flex"
    chosen = build_scheduler(radixflow.Scheduler, vllm_config(settings={"policy": "rows"}))
    assert chosen.recorder.preset == "rows"


def test_a_traceback_from_the_edited_function_shows_vllms_file_and_line(make_bench, tokens, monkeypatch):
    """The edit inserts statements, yet every line below it keeps its number."""
    import inspect
    import traceback

    bench = make_bench("radixflow")
    bench.add("A", tokens("a", 48))

    def fail(*args, **kwargs):
        raise RuntimeError("no slots today")

    monkeypatch.setattr(bench.scheduler.kv_cache_manager, "allocate_slots", fail)
    with pytest.raises(RuntimeError, match="no slots today") as caught:
        bench.scheduler.schedule()
    frame = next(
        f for f in traceback.extract_tb(caught.value.__traceback__) if f.name == "schedule" and "vllm" in f.filename
    )
    assert frame.filename == inspect.getsourcefile(VllmScheduler)
    assert frame.line == "new_blocks = self.kv_cache_manager.allocate_slots("


def test_every_line_of_the_edited_function_is_one_of_vllms():
    original = {line for _, _, line in VllmScheduler.schedule.__code__.co_lines() if line}
    edited = {line for _, _, line in rewritten().function.__code__.co_lines() if line}
    assert edited == original
    assert rewritten().function.__qualname__ == "Scheduler.schedule"
    assert rewritten().function.__globals__ is VllmScheduler.schedule.__globals__


def test_the_text_of_explain_is_what_runs():
    import ast

    from radixflow.engine.compat import RELEASES
    from radixflow.engine.rewrite import rewrite_source

    tree, text, _ = rewrite_source(rewritten().original, RELEASES["0.29.0"])
    assert ast.dump(ast.parse("class Scheduler:\n" + text)) == ast.dump(tree)


def test_what_vllm_calls_on_stubs_works_on_stubs():
    from types import SimpleNamespace

    manager = SimpleNamespace(get_computed_blocks=lambda request: ("blocks", 32, 64))
    stub = SimpleNamespace(connector=None, kv_cache_manager=manager)
    assert radixflow.Scheduler._get_local_prefix_cache_hit(stub, None) == ("blocks", 32, 64, False)


def test_an_instance_built_without_init_has_what_the_overrides_read():
    bare = object.__new__(radixflow.Scheduler)
    assert (bare.controller, bare.recorder) == (None, None)
    assert not bare._radixflow_gate(None)
    assert not bare._radixflow_zero(None)
    assert not bare._radixflow_allocation(None, None)


def test_a_wrapper_in_the_place_of_schedule_is_refused(monkeypatch):
    import functools

    from radixflow.engine.support import prepare_rewrite

    original = VllmScheduler.schedule

    @functools.wraps(original)
    def schedule(self, throttle_prefills=False):
        return original(self, throttle_prefills)

    with pytest.raises(UnsupportedError, match="a wrapper or another object put in its place"):
        prepare_rewrite(schedule, "0.29.0")
    with pytest.raises(UnsupportedError, match="a wrapper or another object put in its place"):
        prepare_rewrite(functools.partial(original), "0.29.0")


def test_native_starts_where_the_source_is_not_installed(make_bench, tokens, monkeypatch):
    import inspect

    def unreadable(*_):
        raise OSError("could not get source code")

    rewritten.cache_clear()
    monkeypatch.setattr(inspect, "getsource", unreadable)
    for preset, settings in (("native", {}), ("radixflow", {"on_unsupported": "native"})):
        bench = make_bench(preset, settings=settings)
        bench.add("A", tokens("a", 48))
        assert bench.step() == {"A": 48}
        assert bench.scheduler.recorder.schedule_sha256 == "unknown"
    with pytest.raises(UnsupportedError, match="can't be read"):
        make_bench("radixflow")
    rewritten.cache_clear()


def test_native_needs_no_refusal():
    config = vllm_config(settings={"policy": "native"}, pipeline_parallel_size=2)
    assert build_scheduler(radixflow.Scheduler, config).controller is None


def test_everything_that_enters_the_block_hash_names_the_namespace():
    from types import SimpleNamespace

    from radixflow.engine.book import cache_namespace

    def named(salt=None, lora=None, features=()):
        request = SimpleNamespace(
            cache_salt=salt,
            lora_request=None if lora is None else SimpleNamespace(lora_name=lora),
            mm_features=[
                SimpleNamespace(identifier=name, mm_position=SimpleNamespace(offset=offset))
                for name, offset in features
            ],
        )
        return cache_namespace(request)

    cases = [
        {},
        {"salt": "x"},
        {"salt": "y"},
        {"lora": "x"},
        {"salt": "x", "lora": "x"},
        {"features": [("image", 0)]},
        {"features": [("image", 16)]},
        {"features": [("other", 0)]},
        {"features": [("image", 0), ("other", 16)]},
    ]
    assert len({named(**case) for case in cases}) == len(cases)
    assert named() == named(salt="") == ""
