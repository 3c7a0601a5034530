"""RadixFlow: scheduling for hybrid-model and decision serving on vLLM 0.29.0.

``vllm serve MODEL --scheduler-cls radixflow.Scheduler`` is all the engine needs. Importing this package
imports neither vLLM nor torch: :class:`Scheduler` is resolved when it is first asked for, and the policies,
the index and the configuration stand alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from radixflow.engine.scheduler import Scheduler as Scheduler

__all__ = ["Scheduler", "__version__"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401
    if name == "Scheduler":
        from radixflow.engine.scheduler import Scheduler

        return Scheduler
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
