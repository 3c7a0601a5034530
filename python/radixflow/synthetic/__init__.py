"""Typed decisions about made-up support tickets, with their answers: what the shipped decision model learned from.

Every answer is decided by the text. The held-out split has other sentences, layouts and wordings than ``train``, made
of the same words. Nothing here imports anything but our errors.
"""

from radixflow.synthetic.generator import Sample, generate, samples
from radixflow.synthetic.topic import SPLITS, Split, SplitError

__all__ = ["SPLITS", "Sample", "Split", "SplitError", "generate", "samples"]
