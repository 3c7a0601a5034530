"""A worker without a model that remembers what it computed and fails when a request starts from anything else."""

from radixflow.simulate.state_worker.memory import BlockMemory, Mark, StateFault, advance
from radixflow.simulate.state_worker.worker import StateWorker

__all__ = ["BlockMemory", "Mark", "StateFault", "StateWorker", "advance"]
