"""What the routes of one server share."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from radixflow import __version__
from radixflow.serving.series import scheduler_series
from radixflow.serving.service import DecisionService
from radixflow.serving.settings import EndpointSettings
from radixflow.telemetry.decision_metrics import DecisionMetrics


@dataclass(slots=True)
class EndpointState:
    """Set once, before the server answers."""

    settings: EndpointSettings
    metrics: DecisionMetrics = field(default_factory=DecisionMetrics)
    service: DecisionService | None = None
    """None where this model can't be asked."""
    unavailable: Exception | None = None
    """Why."""

    def stats(self) -> dict[str, Any]:
        """Return what is served and what was counted, as plain values."""
        model = self.service.model if self.service is not None else None
        return {
            "radixflow": __version__,
            "available": model is not None,
            "reason": None if self.unavailable is None else str(self.unavailable),
            "model": None if model is None else model.name,
            "strategies": [] if model is None else [str(kind) for kind in model.manifest.trained_for],
            "near_tie_margin": self.settings.near_tie_margin,
            "max_body_bytes": self.settings.max_body_bytes,
            "process": os.getpid(),
            "decisions": self.metrics.snapshot(),
            "scheduler": scheduler_series(),
        }
