"""Admission, traversal and junction policies. Nothing here imports vLLM."""

from radixflow.policies.base import (
    Action,
    AdmissionPolicy,
    AdmissionSnapshot,
    BarrierKind,
    BarrierSnapshot,
    JunctionPolicy,
    JunctionSnapshot,
    Policy,
    Release,
    TraversalPolicy,
)
from radixflow.policies.defer_traversal import DeferPending, DeferPendingAndZero
from radixflow.policies.flex_admission import FlexAdmission
from radixflow.policies.registry import PRESETS, PolicyFactory, resolve_policy
from radixflow.policies.rows_admission import RowsAdmission

__all__ = [
    "PRESETS",
    "Action",
    "AdmissionPolicy",
    "AdmissionSnapshot",
    "BarrierKind",
    "BarrierSnapshot",
    "DeferPending",
    "DeferPendingAndZero",
    "FlexAdmission",
    "JunctionPolicy",
    "JunctionSnapshot",
    "Policy",
    "PolicyFactory",
    "Release",
    "RowsAdmission",
    "TraversalPolicy",
    "resolve_policy",
]
