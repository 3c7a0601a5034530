"""A server that somebody else started, in the place of one of ours: it is never stopped, and has no round trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from radixflow.bench.errors import ServerError
from radixflow.bench.server import Server, ServerSpec
from radixflow.bench.settings import REMOTE


@dataclass(frozen=True)
class RemoteSpec(ServerSpec):
    """Where it is."""

    address: str = ""

    @property
    def url(self) -> str:
        """Root of the server's HTTP interface."""
        return self.address


class RemoteServer(Server):
    """Watched, and left alone."""

    def start(self) -> Self:
        """Check that it answers.

        Raises:
            ServerError: nobody does at that address.
        """
        if not self.is_healthy(timeout_s=10.0):
            raise ServerError(
                f"url is {self.spec.url!r}: neither /health nor /v1/models answers there; start the server first"
            )
        return self

    def check_alive(self) -> None:
        """Nothing to check: failed calls are counted."""

    def is_healthy(self, timeout_s: float = 2.0) -> bool:
        """Return whether the server answers; one that asks for a key is alive, too."""
        for path in ("/health", "/v1/models"):
            try:
                status = httpx.get(f"{self.spec.url}{path}", timeout=timeout_s, trust_env=False).status_code
            except httpx.HTTPError:
                continue
            if status in (200, 401, 403):
                return True
        return False

    def stop(self) -> None:
        """Leave it running."""


def remote_server(url: str, folder: Path) -> RemoteServer:
    """Return the server at ``url``."""
    spec = RemoteSpec(REMOTE, (), {}, 0, folder / "none.log", folder / "none.jsonl", url.rstrip("/"))
    return RemoteServer(spec)
