"""The async variant in vLLM's own batch-queue loop, with two rounds in flight.

A CPU engine is always synchronous: vLLM clears the flag. So the loop, ``EngineCore.step_with_batch_queue``, is driven
here as it stands, on an executor that computes nothing but the states it is given (``simulate/state_worker``).
"""

from __future__ import annotations

import queue
from collections import deque
from concurrent.futures import Future

import pytest
from oracle import expected_answer
from vllm.v1.core.sched.async_scheduler import AsyncScheduler
from vllm.v1.engine.core import EngineCore

import radixflow
from radixflow.policies import PRESETS
from radixflow.simulate.rig import build_scheduler, make_request, vllm_config
from radixflow.simulate.state_worker import StateWorker

BLOCK = 16


def done(value):
    future = Future()
    future.set_result(value)
    return future


class Executor:
    """Runs rounds in the order in which they are handed over, as a device does; answers are taken later."""

    def __init__(self, worker):
        self.worker = worker
        self.batch_queue = deque()
        self.most_in_flight = 0
        self._answer = None

    def execute_model(self, output, non_block):
        assert non_block
        self.most_in_flight = max(self.most_in_flight, len(self.batch_queue) + 1)
        self._answer = self.worker.execute(output)
        return done(self._answer if output.total_num_scheduled_tokens == 0 else None)

    def sample_tokens(self, grammar, non_block):
        assert grammar is None
        return done(self._answer)


class Engine:
    """vLLM's loop around one scheduler."""

    def __init__(self, preset, depth=2, **options):
        settings = {"policy": preset, "wait_ms": 2, "max_bypass": 4}
        config = vllm_config(
            block_size=BLOCK, async_scheduling=True, settings=None if preset == "stock" else settings, **options
        )
        base = AsyncScheduler if preset == "stock" else radixflow.Scheduler
        scheduler = build_scheduler(base, config)
        self.now = 0.0
        scheduler.clock = lambda: self.now
        self.worker = StateWorker(scheduler)
        self.executor = Executor(self.worker)
        core = self.core = object.__new__(EngineCore)
        core.vllm_config, core.scheduler, core.model_executor = config, scheduler, self.executor
        core.batch_queue, core.batch_queue_size = deque(maxlen=depth), depth
        self.executor.batch_queue = core.batch_queue
        core.is_ec_consumer, core.is_pooling_model, core.check_for_draft_tokens = True, False, False
        core.log_stats = False
        core.aborts_queue = queue.Queue()
        self.answers, self.order = {}, []

    def run(self, between=lambda step: None, most=3_000):
        """Step until nothing is left in the scheduler or in the queue."""
        for step in range(most):
            if not (self.core.scheduler.has_requests() or self.core.batch_queue):
                return
            between(step)
            outputs, _ = self.core.step_with_batch_queue()
            self.now += 0.001
            for group in (outputs or {}).values():
                for answer in group.outputs:
                    self.answers.setdefault(answer.request_id, []).extend(answer.new_token_ids)
                    if answer.finish_reason is not None:
                        self.order.append(answer.request_id)
        raise AssertionError("requests are left, and nothing moves")


def send(engine, tokens, count=24, **options):
    sent = {}
    for number in range(count):
        name = f"r{number}"
        prompt, answer = [*tokens(f"s{number % 4}", 64), *tokens(name, 10 + number)], 1 + number % 5
        sent[name] = (prompt, answer)
        request = make_request(name, prompt, block_size=BLOCK, max_tokens=answer, arrival_time=number, **options)
        engine.core.scheduler.add_request(request)
    return sent


@pytest.mark.parametrize("preset", ["stock", *PRESETS])
@pytest.mark.parametrize("num_blocks", [24, 1_000])
def test_two_rounds_in_flight_end_with_everybody_answered_rightly(tokens, preset, num_blocks):
    engine = Engine(preset, num_blocks=num_blocks, budget=128)
    sent = send(engine, tokens)
    engine.run()
    assert engine.executor.most_in_flight == 2
    assert sorted(engine.order) == sorted(sent)
    for name, (prompt, count) in sent.items():
        assert engine.answers[name] == expected_answer("hybrid", [prompt], [count], False)
    pool = engine.core.scheduler.kv_cache_manager.block_pool
    assert pool.get_num_free_blocks() == num_blocks - 1


@pytest.mark.parametrize("preset", list(PRESETS))
def test_strangers_are_answered_in_the_order_in_which_they_came(tokens, preset):
    engine = Engine(preset, budget=64, max_num_seqs=2)
    for number in range(10):
        request = make_request(f"r{number}", tokens(f"{number}", 40), block_size=BLOCK, arrival_time=number)
        engine.core.scheduler.add_request(request)
    engine.run()
    assert engine.order == [f"r{number}" for number in range(10)]


@pytest.mark.parametrize("preset", list(PRESETS))
def test_aborts_through_the_engines_queue_lose_nobody_else(tokens, preset):
    engine = Engine(preset, num_blocks=40, budget=128)
    sent = send(engine, tokens)
    gone = [f"r{number}" for number in range(0, 24, 5)]

    def leave(step):
        if step < len(gone):
            engine.core.aborts_queue.put_nowait([gone[step]])

    engine.run(leave)
    answered = set(engine.order)
    assert set(sent) - set(gone) <= answered
    for name in set(sent) - set(gone):
        assert engine.answers[name] == expected_answer("hybrid", [sent[name][0]], [sent[name][1]], False)
    assert not engine.core.scheduler.requests
