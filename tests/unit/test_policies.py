"""Presets: what each part answers, by hand."""

from __future__ import annotations

import pytest

from radixflow.config import RadixFlowConfig
from radixflow.errors import PolicyError
from radixflow.policies import (
    PRESETS,
    Action,
    AdmissionSnapshot,
    BarrierKind,
    BarrierSnapshot,
    DeferPending,
    DeferPendingAndZero,
    FlexAdmission,
    Policy,
    Release,
    RowsAdmission,
    resolve_policy,
)


def admission(**changes):
    def unasked():
        raise AssertionError("the index was asked although the answer did not depend on it")

    values = {
        "now": 100.0,
        "wait_s": 0.005,
        "oldest_age_s": 0.001,
        "candidates": 2,
        "ready": 0,
        "running": 0,
        "free_rows": 8,
        "token_budget": 1000,
        "residual_tokens": unasked,
    }
    return AdmissionSnapshot(**{**values, **changes})


def barrier(kind, pending=False):
    return BarrierSnapshot(
        now=1.0,
        kind=kind,
        pending=pending,
        request_id="a",
        deferrals=0,
        deferred_for_s=0.0,
        deferred_in_round=0,
    )


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"candidates": 8}, Release.ROWS),
        ({"candidates": 7}, None),
        ({"running": 3}, None),
        ({"candidates": 0, "free_rows": 0}, Release.ROWS),
    ],
)
def test_rows_waits_for_rows_even_while_running(changes, expected):
    assert RowsAdmission().decide(admission(**changes)) is expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"residual_tokens": lambda: 999}, None),
        ({"residual_tokens": lambda: 1000}, Release.TOKENS),
        ({"candidates": 8}, Release.ROWS),
        ({"running": 1}, Release.RUNNING),
        ({"ready": 1}, Release.RUNNING),
    ],
)
def test_flex_waits_only_on_an_idle_engine_whose_budget_is_not_full(changes, expected):
    assert FlexAdmission().decide(admission(**changes)) is expected


@pytest.mark.parametrize(
    ("policy", "kind", "pending", "expected"),
    [
        (DeferPending(), BarrierKind.ALLOCATION, True, Action.DEFER),
        (DeferPending(), BarrierKind.ALLOCATION, False, Action.BARRIER),
        (DeferPending(), BarrierKind.ZERO, False, Action.BARRIER),
        (DeferPendingAndZero(), BarrierKind.ALLOCATION, True, Action.DEFER),
        (DeferPendingAndZero(), BarrierKind.ALLOCATION, False, Action.BARRIER),
        (DeferPendingAndZero(), BarrierKind.ZERO, False, Action.DEFER),
    ],
)
def test_exhaustion_is_never_deferred(policy, kind, pending, expected):
    assert policy.on_barrier(barrier(kind, pending)) is expected


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("native", (None, None, None)),
        ("rows", (RowsAdmission, None, None)),
        ("flex", (FlexAdmission, None, None)),
        ("radixflow", (FlexAdmission, DeferPending, None)),
        ("radixflow_frag", (FlexAdmission, DeferPendingAndZero, None)),
    ],
)
def test_a_preset_is_a_triple(name, parts):
    policy = resolve_policy(RadixFlowConfig(policy=name))
    found = (policy.admission, policy.traversal, policy.junctions)
    assert tuple(None if part is None else type(part) for part in found) == parts
    assert policy.name == name
    assert policy.is_native is (name == "native")
    assert policy.needs_index is (parts[0] is FlexAdmission)


def test_every_preset_is_covered_above():
    assert set(PRESETS) == {"native", "rows", "flex", "radixflow", "radixflow_frag", "planned"}


OWN = """
from radixflow.policies import DeferPending, Policy, RowsAdmission

class Patient(Policy):
    def __init__(self, config):
        super().__init__("patient", RowsAdmission(), DeferPending())

class NoPolicy:
    def __init__(self, config):
        pass

def broken(config):
    raise RuntimeError("no luck")

number = 3
"""


def test_a_policy_of_ones_own_by_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    policy = resolve_policy(RadixFlowConfig(policy=f"{path}:Patient"))
    assert isinstance(policy, Policy)
    assert policy.name == "patient"


def test_a_policy_of_ones_own_by_module(tmp_path, monkeypatch):
    (tmp_path / "my_policies.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert resolve_policy(RadixFlowConfig(policy="my_policies:Patient")).name == "patient"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("planed", r"'planed', which is unknown; presets: native, rows, flex, radixflow, radixflow_frag"),
        ("no_such_module:Class", r"can't import module 'no_such_module'"),
        ("{path}:Missing", r"has no class or function 'Missing'"),
        ("{path}:number", r"has no class or function 'number'"),
        ("{path}:NoPolicy", r"returned NoPolicy, not a radixflow.policies.Policy"),
        ("{path}:broken", r"raised RuntimeError\('no luck'\)"),
        ("{folder}/gone.py:Class", r"there is no file"),
        (":Class", r"which is unknown"),
        ("module:", r"which is unknown"),
    ],
)
def test_a_policy_that_cannot_be_had_says_why(tmp_path, spec, message):
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    with pytest.raises(PolicyError, match=message):
        resolve_policy(RadixFlowConfig(policy=spec.format(path=path, folder=tmp_path)))


def test_a_policy_file_that_raises_says_so(tmp_path):
    path = tmp_path / "bad.py"
    path.write_text("1 / 0")
    with pytest.raises(PolicyError, match="ZeroDivisionError"):
        resolve_policy(RadixFlowConfig(policy=f"{path}:Class"))


def test_a_part_that_is_no_policy_is_named(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text("from radixflow.policies import Policy\ndef odd(config):\n    return Policy('odd', object())\n")
    with pytest.raises(PolicyError, match="its admission is object, not a AdmissionPolicy"):
        resolve_policy(RadixFlowConfig(policy=f"{path}:odd"))


def test_a_policy_module_that_raises_says_so(tmp_path, monkeypatch):
    (tmp_path / "raising_policies.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(PolicyError, match="can't import module 'raising_policies'"):
        resolve_policy(RadixFlowConfig(policy="raising_policies:Class"))
