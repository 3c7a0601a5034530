"""What the scheduler says when it is built or steps back, provoked and compared with the documents that quote it."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from quotes import assert_quoted

import radixflow
from radixflow.engine import scheduler as module
from radixflow.engine.compat import RELEASES, VllmRelease, check_release, check_relied_on
from radixflow.engine.support import check_configuration, prepare_rewrite
from radixflow.partial_hits import records
from radixflow.simulate.rig import build_scheduler, vllm_config
from radixflow.telemetry import JsonLinesSink, decision_metrics, prometheus

RELEASE = RELEASES["0.29.0"]


def model(**flags):
    kind = SimpleNamespace(**{"is_encoder_decoder": False, "is_diffusion": False, **flags})
    parallel = SimpleNamespace(pipeline_parallel_size=1)
    return SimpleNamespace(parallel_config=parallel, kv_transfer_config=None, model_config=kind)


def build(settings=None, **options):
    return build_scheduler(radixflow.Scheduler, vllm_config(settings=settings, **options))


def relied_on(name):
    return lambda: check_relied_on(VllmRelease("0.29.0", "", (), {}, "", {name: "0" * 64}))


def without_source():
    names = {}
    exec("def schedule(self):\n    return None\n", names)
    prepare_rewrite(names["schedule"], "0.29.0")


RAISED = {
    "range": lambda: build({"wait_ms": 500}),
    "pipeline": lambda: build({"policy": "planned"}, pipeline_parallel_size=2),
    "connector": lambda: build({"policy": "planned"}, kv_connector="ExampleConnector"),
    "encoder-decoder": lambda: check_configuration(model(is_encoder_decoder=True)),
    "diffusion": lambda: check_configuration(model(is_diffusion=True)),
    "version": lambda: check_release("0.31.0", "0" * 64),
    "source": lambda: check_release("0.29.0", "0" * 64),
    "no-source": without_source,
    "relied-on": relied_on(next(iter(RELEASE.relied_on))),
    "relied-on-gone": relied_on("vllm.v1.core.sched.scheduler:Scheduler._gone"),
    "wrapper": lambda: prepare_rewrite(len, "0.29.0"),
    "sync-in-async": lambda: build_scheduler(module.SyncVariant, vllm_config(async_scheduling=True, settings={})),
    "async-in-sync": lambda: build_scheduler(module.AsyncVariant, vllm_config(settings={})),
}


@pytest.mark.parametrize("name", RAISED)
def test_what_is_quoted_is_raised(name):
    with pytest.raises(Exception, match=r".") as caught:
        RAISED[name]()
    assert_quoted(name, caught.value)


def oversized(make_bench, tokens, patch):
    make_bench("planned", block_size=16, num_blocks=10).add("X", tokens("x", 400))


def native_instead(make_bench, tokens, patch):
    make_bench("planned", settings={"on_unsupported": "native"}, pipeline_parallel_size=2)


def caching_off(make_bench, tokens, patch):
    make_bench("planned", caching=False)


def inside_off(make_bench, tokens, patch):
    make_bench("planned", block_size=32, match_unit=4)


def unreadable_verdict(make_bench, tokens, patch):
    path = records.path_of("f" * 64)
    path.parent.mkdir(parents=True)
    path.write_text("{")
    records.find("f" * 64)


def policy_fails(make_bench, tokens, patch):
    bench = make_bench("flex", settings={"wait_ms": 5})

    def broken(snapshot):
        raise ValueError("no such row")

    patch.setattr(bench.scheduler.controller.policy.admission, "decide", broken)
    bench.add("X", tokens("x", 40))
    bench.step()


class FullDisk:
    """A file that takes nothing."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def write(self, text):
        raise OSError(28, "No space left on device")


def trace_stops(make_bench, tokens, patch):
    patch.setattr("radixflow.telemetry.sinks.Path.open", lambda *_, **__: FullDisk())
    sink = JsonLinesSink("rounds.jsonl")
    sink.write(SimpleNamespace(to_json=dict))
    sink.close()


def no_space(*_):
    raise OSError(28, "No space left on device")


def series_stop(make_bench, tokens, patch):
    patch.setattr(prometheus.SchedulerSeries, "_publish", no_space)
    prometheus.SchedulerSeries("quoted", {"failures.telemetry": 0}, {}).publish()


def no_series(make_bench, tokens, patch):
    patch.setattr(prometheus, "_told", set())
    patch.setattr(prometheus, "SchedulerSeries", no_space)
    prometheus.open_series("quoted", {"failures.telemetry": 0}, {})


def decision_series_stop(make_bench, tokens, patch):
    patch.setattr(decision_metrics, "family", no_space)
    decision_metrics.DecisionMetrics().failed(500)


LOGGED = {
    "native-instead": native_instead,
    "caching-off": caching_off,
    "oversized": oversized,
    "inside-off": inside_off,
    "verdict-unreadable": unreadable_verdict,
    "policy-fails": policy_fails,
    "trace-stops": trace_stops,
    "series-stop": series_stop,
    "no-series": no_series,
    "decision-series-stop": decision_series_stop,
}


@pytest.mark.parametrize("name", LOGGED)
def test_what_is_quoted_is_logged(make_bench, tokens, logged, monkeypatch, tmp_path, name):
    monkeypatch.setenv("RADIXFLOW_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    LOGGED[name](make_bench, tokens, monkeypatch)
    messages = [*logged("WARNING"), *logged("ERROR")]
    assert len(messages) == 1, messages
    assert_quoted(name, messages[0])


ANNOUNCED = {
    "announcement": lambda make_bench: make_bench("planned", settings={"wait_ms": 5}, block_size=32),
    "no-recurrent-state": lambda make_bench: make_bench("planned", family="attention"),
}


@pytest.mark.parametrize("name", ANNOUNCED)
def test_what_is_quoted_is_told_at_the_start(make_bench, logged, name):
    logger = logging.getLogger("vllm.radixflow")
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        ANNOUNCED[name](make_bench)
    finally:
        logger.setLevel(level)
    # What will happen comes first, what can't after it.
    assert_quoted(name, logged("INFO")[0 if name == "announcement" else 1])
