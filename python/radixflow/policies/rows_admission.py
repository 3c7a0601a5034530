"""Wait until the free rows can be filled, or the bound passes: the plain gather of the predecessor."""

from __future__ import annotations

from radixflow.policies.base import AdmissionPolicy, AdmissionSnapshot, Release


class RowsAdmission(AdmissionPolicy):
    """Hold until the candidates fill the free rows, even while other requests run.

    The predecessor's fault is kept on purpose: new arrivals wait although a round starts anyway, which costs
    a lone request the whole bound.
    """

    def decide(self, snapshot: AdmissionSnapshot) -> Release | None:
        """Release on ``rows``; the engine adds ``deadline``."""
        return Release.ROWS if snapshot.candidates >= snapshot.free_rows else None
