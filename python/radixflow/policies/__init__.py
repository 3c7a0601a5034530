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
    RoundSnapshot,
    StartObservation,
    TraversalPolicy,
)
from radixflow.policies.defer_traversal import DeferPending, DeferPendingAndZero
from radixflow.policies.flex_admission import FlexAdmission
from radixflow.policies.learned_admission import LearnedAdmission
from radixflow.policies.planned_junctions import PlannedJunctions
from radixflow.policies.planned_traversal import PlannedTraversal
from radixflow.policies.registry import PRESETS, PolicyFactory, resolve_policy
from radixflow.policies.round_cost import RoundCost, RoundCostLearner
from radixflow.policies.rows_admission import RowsAdmission
from radixflow.policies.tail_states import AccountedTails, TailPolicy, TailSnapshot

__all__ = [
    "PRESETS",
    "AccountedTails",
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
    "LearnedAdmission",
    "PlannedJunctions",
    "PlannedTraversal",
    "Policy",
    "PolicyFactory",
    "Release",
    "RoundCost",
    "RoundCostLearner",
    "RoundSnapshot",
    "RowsAdmission",
    "StartObservation",
    "TailPolicy",
    "TailSnapshot",
    "TraversalPolicy",
    "resolve_policy",
]
