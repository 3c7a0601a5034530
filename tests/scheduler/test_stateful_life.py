"""Whole lives of requests, drawn by hypothesis: whatever happens, nobody is lost, run twice or answered wrongly.

20,000 calls of ``schedule()`` a preset at least, sync and async; ``RADIXFLOW_LIVES=20`` lives as many times more,
``RADIXFLOW_SHRINK=1`` makes what failed small. What is checked after every step is in ``tests/support/life.py``;
``tests/mutants`` shows that planted faults are caught.
"""

from __future__ import annotations

import dataclasses
import os
import random

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test
from life import Life, Shape, a_shape
from oracle import expected_answer
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.core.sched.scheduler import Scheduler as VllmScheduler

from radixflow.policies import PRESETS
from radixflow.simulate.rig import build_scheduler, make_request, vllm_config
from radixflow.simulate.state_worker import StateWorker

TIMES = int(os.environ.get("RADIXFLOW_LIVES", "1"))
LIVES = 110
STEPS = 40
# Large numbers are drawn evenly, small ones are not: what matters is drawn from a seed.
SEED = st.integers(0, 1 << 32)


class LifeMachine(RuleBasedStateMachine):
    """The rules are what may happen; the checks are the life's own."""

    preset = "stock"
    calls = 0

    @initialize(seed=SEED)
    def begin(self, seed):
        self.life = Life(self.preset, a_shape(seed))
        self.seed = seed

    @rule(seed=SEED)
    def arrive(self, seed):
        self.life.do("add", seed)

    @rule(seed=SEED, count=st.integers(2, 6), long=st.booleans())
    def crowd(self, seed, count, long):
        self.life.do("crowd", seed, count, long)

    @rule(count=st.integers(1, 8))
    def schedule(self, count):
        self.life.do("schedule", count)

    # Rules are drawn evenly; rounds are to be half of what happens.
    more = schedule
    still_more = schedule
    and_more = schedule

    @rule(length=st.sampled_from([0, 5, 17, 40]))
    def stream(self, length):
        self.life.do("stream", length)

    @rule(which=st.integers(0, 30), in_flight=st.booleans())
    def abort(self, which, in_flight):
        self.life.do("abort_in_flight" if in_flight else "abort", which)

    @rule(running=st.booleans())
    def reset(self, running):
        self.life.do("reset", running)

    @rule(state=st.sampled_from(["PAUSED_NEW", "PAUSED_ALL", "UNPAUSED"]))
    def pause(self, state):
        self.life.do("pause", state)

    @rule(seconds=st.sampled_from([0.0005, 0.001, 0.006, 0.3]))
    def wait(self, seconds):
        self.life.do("wait", seconds)

    @invariant()
    def nobody_waits_in_vain(self):
        """A pause that is forgotten would make most of a life empty."""
        life = getattr(self, "life", None)
        if life is not None and len(life.log) % 8 == 7 and life.scheduler.pause_state.name != "UNPAUSED":
            life.do("pause", "UNPAUSED")

    def teardown(self):
        life = getattr(self, "life", None)
        if life is None:
            return
        if self.seed % 4 == 1:
            life.stop()
        else:
            life.finish()
        type(self).calls += life.calls
        if self.seed % 8 == 0:
            again = life.again()
            again.finish()
            assert again.worker.rounds == life.worker.rounds
            assert again.worker.answers == life.worker.answers


def live(preset, seed):
    """Live a life drawn from a seed alone, with the same rules: many times as fast as hypothesis draws one."""
    life, source = Life(preset, a_shape(seed)), random.Random(f"life {seed}")
    rules = {
        "schedule": lambda: life.do("schedule", source.randint(1, 8)),
        "arrive": lambda: life.do("add", source.randrange(1 << 32)),
        "crowd": lambda: life.do("crowd", source.randrange(1 << 32), source.randint(2, 6), source.random() < 0.5),
        "stream": lambda: life.do("stream", source.choice([0, 5, 17, 40])),
        "abort": lambda: life.do(source.choice(["abort", "abort_in_flight"]), source.randint(0, 30)),
        "reset": lambda: life.do("reset", source.random() < 0.5),
        "pause": lambda: life.do("pause", source.choice(["PAUSED_NEW", "PAUSED_ALL", "UNPAUSED"])),
        "wait": lambda: life.do("wait", source.choice([0.0005, 0.001, 0.006, 0.3])),
    }
    for number in range(STEPS):
        rules[source.choices(list(rules), [4, 1, 1, 1, 1, 1, 1, 1])[0]]()
        if number % 8 == 7 and life.scheduler.pause_state.name != "UNPAUSED":
            life.do("pause", "UNPAUSED")
    life.finish()
    return life.calls


@pytest.mark.parametrize("preset", PRESETS)
def test_whatever_happens_everybody_is_served_once_and_rightly(preset):
    machine = type(f"Life_{preset}", (LifeMachine,), {"preset": preset, "calls": 0})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=LIVES * TIMES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            database=None,
            # Shrinking takes many times as long as finding; the steps of the life that failed are printed.
            phases=(Phase.generate, *([Phase.shrink] if "RADIXFLOW_SHRINK" in os.environ else [])),
            suppress_health_check=list(HealthCheck),
        ),
    )
    # What hypothesis draws depends on more than the seed.
    assert machine.calls >= 3_000 * TIMES
    seed, calls = 1_000_000, machine.calls
    while calls < 20_000 * TIMES:
        calls += live(preset, seed)
        seed += 1


ROOMY = Shape(4_000, 8192, 256, 0, "fcfs", False, "hybrid", None, 1, 0)


@pytest.mark.parametrize("family", ["hybrid", "attention", "recurrent"])
@pytest.mark.parametrize("in_flight", [1, 2])
def test_the_expected_answers_are_those_of_vllm_with_room_for_everybody(tokens, family, in_flight):
    config = vllm_config(block_size=16, async_scheduling=in_flight > 1)
    base = AsyncScheduler if in_flight > 1 else VllmScheduler
    worker = StateWorker(build_scheduler(base, config, family))
    sent = {}
    for number in range(20):
        prompt, count = [*tokens("s", 16 * (number % 4)), *tokens(f"{number}", 5 + number)], 1 + number % 5
        sent[f"r{number}"] = (prompt, count, number % 7 == 0)
        worker.scheduler.add_request(
            make_request(f"r{number}", prompt, block_size=16, max_tokens=count, pooling=number % 7 == 0)
        )
    worker.run()
    for name, (prompt, count, pooling) in sent.items():
        assert worker.answers[name] == expected_answer(family, [prompt], [count], pooling)


def test_a_life_is_lived_again_from_its_log():
    life = Life("planned", dataclasses.replace(ROOMY, num_blocks=24, rows=4))
    for seed in range(6):
        life.do("crowd", seed, 3, seed % 2 == 0)
        life.do("schedule", 2)
    life.finish()
    again = life.again()
    again.finish()
    assert again.worker.rounds == life.worker.rounds
    assert again.worker.answers == life.worker.answers


def test_the_lives_do_preempt_hold_defer_plan_and_stream():
    """The property above means little on lives in which nothing of that happens."""
    seen = dict.fromkeys(["preempted", "held", "deferred", "planned", "streamed", "withdrawn", "aborted"], 0)
    for seed in range(40):
        # `planned` holds only engines that are idle and have learned to; those of the predecessor hold at once.
        life = Life("radixflow" if seed % 4 == 0 else "planned", a_shape(seed))
        for number in range(12):
            life.do("crowd", 1_000 * seed + number, 3, number % 3 == 0)
            life.do("add", 1_000 * seed + 500 + number)
            life.do("schedule", 1)
            seen["preempted"] += life._preemptions() > 0
            life.do("schedule", 3)
            life.do("stream", 17)
            if number % 4 == 3:
                life.do("abort", number)
                life.do("wait", 0.3)
        totals = life.scheduler.recorder.totals
        seen["held"] += any(name.startswith("holds") for name in totals)
        seen["deferred"] += any(name.startswith("deferrals") for name in totals)
        seen["planned"] += totals["junctions"] > 0
        seen["withdrawn"] += totals["uncomputed_blocks"] > 0
        seen["streamed"] += any(len(sent.chunks) > 1 for sent in life.sent.values())
        seen["aborted"] += any(sent.aborted for sent in life.sent.values())
        life.stop()
    assert all(count >= 3 for count in seen.values()), seen
