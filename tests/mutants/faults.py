"""Faults to plant: one edit each of a copy of the package, and the tests that have to notice it."""

from __future__ import annotations

from dataclasses import dataclass

_ENGINE = "engine"
LIFE = "tests/scheduler/test_stateful_life.py"


@dataclass(frozen=True)
class Fault:
    """One edit: ``before`` must occur exactly once in ``file``."""

    name: str
    file: str
    before: str
    after: str
    tests: tuple[str, ...]


def _life(preset: str) -> str:
    return f"{LIFE}::test_whatever_happens_everybody_is_served_once_and_rightly[{preset}]"


FAULTS = (
    Fault(
        "drop a request: who is passed over comes back to no queue",
        "engine/controller.py",
        "        waiting.extendleft(reversed(passed))\n",
        "        waiting.extendleft(reversed(passed[1:]))\n",
        (_life("radixflow"),),
    ),
    Fault(
        "queue a request twice: who is passed over stays where it was too",
        "engine/controller.py",
        "            skipped.clear()\n",
        "            pass\n",
        (_life("planned"),),
    ),
    Fault(
        "queue a request twice where somebody else was skipped as well",
        "engine/controller.py",
        "            skipped.remove_requests(passed)\n",
        "            pass\n",
        ("tests/scheduler/test_deferral_bounds.py",),
    ),
    Fault(
        "defer without bound",
        "engine/traversal.py",
        "        if entry.deferrals >= self._config.max_bypass:\n            return True\n",
        "        return False\n",
        (_life("planned"),),
    ),
    Fault(
        "hold without bound",
        "engine/admission.py",
        "        if age < 0.0 or age + CLOCK_GRAIN_S >= self.wait_s or self._polls >= MOST_POLLS:\n",
        "        if age < 0.0:\n",
        (_life("rows"), "tests/scheduler/test_holds.py"),
    ),
    Fault(
        "junction one block too far",
        "engine/planner.py",
        "        return plan[0] if plan and plan[0] % self._block == 0 else 0\n",
        "        return self._block + (plan[0] if plan and plan[0] % self._block == 0 else 0)\n",
        ("tests/scheduler/test_planned.py", "tests/scheduler/test_junction_hook.py"),
    ),
    Fault(
        "ignore the salt",
        "engine/book.py",
        "    return repr((salt or None, lora",
        "    return repr((None, lora",
        (_life("planned"),),
    ),
    Fault(
        "ignore the adapter",
        "engine/book.py",
        "lora.lora_name if lora is not None else None",
        "None",
        (_life("planned"),),
    ),
    Fault(
        "forget an index entry: a key stays when its request has left",
        "engine/book.py",
        "            self.groups.leave(entry.group_key)\n        self._unkey(entry)\n",
        "            self.groups.leave(entry.group_key)\n",
        (_life("planned"),),
    ),
    Fault(
        "forget an index entry: who is preempted gets no key back",
        "engine/book.py",
        "                self._unkey(entry)\n                self._key(entry, request)\n",
        "                self._unkey(entry)\n",
        (_life("planned"),),
    ),
    Fault(
        "forget an entry: who leaves stays in the book",
        "engine/scheduler.py",
        "            self.controller.left(request.request_id)\n",
        "            pass\n",
        (_life("radixflow"),),
    ),
    Fault(
        "skip the #57580 fix",
        "engine/scheduler.py",
        "            before_preemption(self.controller, self.kv_cache_manager, request)\n",
        "            pass\n",
        (_life("rows"), "tests/scheduler/test_uncomputed_states.py"),
    ),
    Fault(
        "take back one block too few of a withdrawn chunk",
        "engine/uncomputed.py",
        "        for block in blocks[computed // manager.block_size :]:\n",
        "        for block in blocks[computed // manager.block_size + 1 :]:\n",
        (_life("rows"), "tests/scheduler/test_uncomputed_states.py"),
    ),
    Fault(
        "index a prompt that streams in",
        "engine/book.py",
        "    return not request.resumable and not request.skip_reading_prefix_cache\n",
        "    return not request.skip_reading_prefix_cache\n",
        (_life("planned"),),
    ),
    Fault(
        "a look-up of ours publishes an event",
        "engine/admission.py",
        "            silent = not manager.enable_kv_cache_events\n",
        "            silent = True\n",
        ("tests/scheduler/test_holds.py", "tests/scheduler/test_silent_lookup.py"),
    ),
    Fault(
        "pass over whom the pool has no blocks for",
        "engine/readiness.py",
        "    return False\n",
        "    return True\n",
        ("tests/scheduler/test_public_cases.py",),
    ),
    Fault(
        "keep a promise whose producer has left",
        "engine/controller.py",
        "        self._prefill_ended(request_id)\n        if self.admission",
        "        if self.admission",
        (_life("planned"),),
    ),
    Fault(
        "give way without bound",
        "engine/traversal.py",
        "        if tokens > self._room and entry.gave_way < self._config.max_bypass:\n",
        "        if tokens > self._room:\n",
        ("tests/scheduler/test_deferral_bounds.py",),
    ),
    Fault(
        "give way with an adapter",
        "engine/traversal.py",
        "        if request.lora_request is not None:\n",
        "        if False:\n",
        ("tests/scheduler/test_giving_way.py",),
    ),
    Fault(
        "charge a repetition that was weighed before",
        "engine/planner.py",
        "            if self._tails[key] > 0:\n",
        "            if False:\n",
        ("tests/scheduler/test_laboratory.py",),
    ),
)
