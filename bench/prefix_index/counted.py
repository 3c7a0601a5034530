"""The program whose instructions are counted: `python -m prefix_index.counted SUBJECT STEPS LENGTH`.

It does everything that a subject offers on the keys of one structure, to warm up, and the first STEPS operations on
those of a few more. So the difference between two runs is one operation alone, without what the first calls cost the
interpreter and the linker. It imports little: here every instruction costs fifty.
"""

from __future__ import annotations

import gc
import os
import sys

from prefix_index.keys import Workload
from prefix_index.subjects import OPERATIONS, Subject, by_name

STRUCTURES = 3


def workload(length: int) -> Workload:
    """Choose a small one with keys of `length` tokens."""
    return Workload(states=max(1, 4352 // length), shared=length - 64)


def do(subject: Subject, steps: int, chosen: Workload) -> None:
    """Do the first operations on one structure."""
    prepared = subject.prepare(chosen.waiting())
    queries = [subject.convert(key) for key in subject.prepare(chosen.queries())]
    keys = [subject.convert(key) for key in prepared]
    operations = {"convert": subject.convert, **subject.fresh()}
    given = {"convert": prepared, "insert": keys, "match": queries}
    handles: list[int] = []
    for name in OPERATIONS[:steps]:
        if name in operations:
            call = operations[name]
            answers = [call(one) for one in given.get(name, handles)]
            if name == "insert":
                handles = answers
            KEPT.append(answers)
    KEPT.append(operations)


# Nothing is freed before the end, so that no operation pays for what an earlier one left.
KEPT: list[object] = []

if __name__ == "__main__":
    gc.disable()
    counted, steps, size = by_name()[sys.argv[1]](), int(sys.argv[2]), workload(int(sys.argv[3]))
    do(counted, len(OPERATIONS), size)
    for _ in range(STRUCTURES):
        do(counted, steps, size)
    os._exit(0)
