"""Hold only an idle engine, and only while a round's budget isn't full yet."""

from __future__ import annotations

from radixflow.policies.base import AdmissionPolicy, AdmissionSnapshot, Release


class FlexAdmission(AdmissionPolicy):
    """Like :class:`RowsAdmission`, but never beside work that starts a round anyway.

    Waiting rows that were released before (deferred consumers, say) count as such work: the round they
    start is the one a newcomer should join. The budget is compared with *residual* tokens, because a
    shared prefix fills a round only once.
    """

    uses_residuals = True

    def decide(self, snapshot: AdmissionSnapshot) -> Release | None:
        """Release on ``running``, ``rows`` or ``tokens``, cheapest first; the engine adds ``deadline``."""
        if snapshot.running > 0 or snapshot.ready > 0:
            return Release.RUNNING
        if snapshot.candidates >= snapshot.free_rows:
            return Release.ROWS
        if snapshot.residual_tokens() >= snapshot.token_budget:
            return Release.TOKENS
        return None
