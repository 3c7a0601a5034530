"""Presets by name, and policies of a user's own by ``module:Class`` or ``path/to/file.py:Class``."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType, ModuleType

from radixflow.config import RadixFlowConfig
from radixflow.errors import PolicyError
from radixflow.policies.base import AdmissionPolicy, JunctionPolicy, Policy, TraversalPolicy
from radixflow.policies.defer_traversal import DeferPending, DeferPendingAndZero
from radixflow.policies.flex_admission import FlexAdmission
from radixflow.policies.learned_admission import LearnedAdmission
from radixflow.policies.planned_junctions import PlannedJunctions
from radixflow.policies.planned_traversal import PlannedTraversal
from radixflow.policies.rows_admission import RowsAdmission
from radixflow.policies.tail_states import AccountedTails, TailPolicy

PolicyFactory = Callable[[RadixFlowConfig], Policy]

PRESETS: Mapping[str, PolicyFactory] = MappingProxyType(
    {
        "native": lambda config: Policy("native"),
        "rows": lambda config: Policy("rows", RowsAdmission()),
        "flex": lambda config: Policy("flex", FlexAdmission()),
        "radixflow": lambda config: Policy("radixflow", FlexAdmission(), DeferPending()),
        "radixflow_frag": lambda config: Policy("radixflow_frag", FlexAdmission(), DeferPendingAndZero()),
        "planned": lambda config: Policy(
            "planned",
            LearnedAdmission(),
            PlannedTraversal(config.round_tokens),
            PlannedJunctions(),
            AccountedTails() if config.tail_states == "auto" else None,
        ),
    }
)
"""Name to factory. Each preset adds one mechanism to the one before it, so that a speed-up can be attributed."""


_PARTS: Mapping[str, type] = MappingProxyType(
    {"admission": AdmissionPolicy, "traversal": TraversalPolicy, "junctions": JunctionPolicy, "tails": TailPolicy}
)


def _load_module(place: str, spec: str) -> ModuleType:
    """Import a dotted module, or a file whose name ends in ``.py``."""
    if not place.endswith(".py"):
        try:
            return importlib.import_module(place)
        except Exception as error:
            raise PolicyError(
                f"field 'policy' is {spec!r}: can't import module {place!r} ({error}); check PYTHONPATH, "
                "or give the file as path/to/file.py:Class"
            ) from error
    path = Path(place).expanduser().resolve()
    if not path.is_file():
        raise PolicyError(
            f"field 'policy' is {spec!r}: there is no file {place!r}; give a path from the working folder"
        )
    name = f"_radixflow_policy_{path.stem}"
    found = importlib.util.spec_from_file_location(name, path)
    if found is None or found.loader is None:
        raise PolicyError(f"field 'policy' is {spec!r}: {place!r} is not a Python file")
    module = importlib.util.module_from_spec(found)
    # Registered first: dataclasses and pickling look their module up by name.
    sys.modules[name] = module
    try:
        found.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise PolicyError(f"field 'policy' is {spec!r}: {place!r} raised {error!r} while it was imported") from error
    return module


def resolve_policy(config: RadixFlowConfig) -> Policy:
    """Build the policy that ``config.policy`` names.

    Raises:
        PolicyError: no such preset, module, file or class, or what it builds is not a :class:`Policy`.
    """
    spec = config.policy
    if spec in PRESETS:
        return PRESETS[spec](config)
    place, separator, name = spec.rpartition(":")
    if not separator or not place or not name:
        raise PolicyError(
            f"field 'policy' is {spec!r}, which is unknown; presets: {', '.join(PRESETS)}; "
            "a policy of your own is module:Class or path/to/file.py:Class"
        )
    factory = getattr(_load_module(place, spec), name, None)
    if factory is None or not callable(factory):
        raise PolicyError(f"field 'policy' is {spec!r}: {place!r} has no class or function {name!r}")
    try:
        policy = factory(config)
    except Exception as error:
        raise PolicyError(f"field 'policy' is {spec!r}: {name}(config) raised {error!r}") from error
    if not isinstance(policy, Policy):
        raise PolicyError(
            f"field 'policy' is {spec!r}: {name}(config) returned {type(policy).__name__}, "
            "not a radixflow.policies.Policy; subclass it or return one"
        )
    for part, kind in _PARTS.items():
        value = getattr(policy, part)
        if value is not None and not isinstance(value, kind):
            raise PolicyError(
                f"field 'policy' is {spec!r}: its {part} is {type(value).__name__}, not a {kind.__name__}; "
                f"subclass radixflow.policies.{kind.__name__}"
            )
    return policy
