"""Where verdicts are kept: those that ship with RadixFlow, and those of this user's own checks."""

from __future__ import annotations

import logging
import os
from importlib import resources
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from radixflow.errors import RadixFlowError
from radixflow.models.store import HOME_VARIABLE, home
from radixflow.partial_hits.verdict import Verdict

logger = logging.getLogger("vllm.radixflow")

_SHIPPED = "recorded.json"
_VERDICTS = TypeAdapter(list[Verdict])


def path_of(fingerprint: str) -> Path:
    """Return the file of this user's own verdict."""
    return home() / "partial_hits" / f"{fingerprint}.json"


def shipped() -> list[Verdict]:
    """Return the verdicts that ship with RadixFlow."""
    return _VERDICTS.validate_json(resources.files("radixflow.partial_hits").joinpath(_SHIPPED).read_bytes())


def find(fingerprint: str) -> Verdict | None:
    """Return what is known about an engine; the user's own check counts more than a shipped one.

    A file that can't be read is as good as none; that is logged.
    """
    path = path_of(fingerprint)
    try:
        return Verdict.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        pass
    except (OSError, ValidationError) as error:
        logger.warning("radixflow: %s can't be read (%s); check again to write it anew", path, error)
    return next((one for one in shipped() if one.fingerprint == fingerprint), None)


def keep(verdict: Verdict) -> Path:
    """Write a verdict into this user's folder; returns the file.

    Raises:
        RadixFlowError: the folder can't be written.
    """
    path = path_of(verdict.fingerprint)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = path.with_suffix(f".{os.getpid()}")
        staging.write_text(verdict.model_dump_json(indent=1) + "\n")
        staging.replace(path)
    except OSError as error:
        raise RadixFlowError(
            f"cannot write {path}: {error.strerror or error}; set {HOME_VARIABLE} to a folder that can be written"
        ) from error
    return path
