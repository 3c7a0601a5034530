"""Where round records go. A sink that fails is dropped; it never stops a round."""

from __future__ import annotations

import json
import logging
import threading
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path

from radixflow.errors import ConfigError
from radixflow.telemetry.records import RoundRecord

logger = logging.getLogger("vllm.radixflow")


class Sink(ABC):
    """Takes records one by one. ``write`` must be quick: it runs between two rounds."""

    @abstractmethod
    def write(self, record: RoundRecord) -> None:
        """Take one record."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and threads; may be called twice."""


class RingSink(Sink):
    """The last ``size`` rounds, in memory."""

    def __init__(self, size: int) -> None:
        """Keep at most ``size`` records."""
        self.records: deque[RoundRecord] = deque(maxlen=size)

    def write(self, record: RoundRecord) -> None:
        """Append, forgetting the oldest record when full."""
        self.records.append(record)

    def close(self) -> None:
        """Forget the records."""
        self.records.clear()


class JsonLinesSink(Sink):
    """One JSON object a line, written by a thread of its own that looks for records a few times a second.

    A round only appends to a list: waking the thread for each record would cost the round more than the
    record does. A disk that fills up, or a folder that is removed, ends the trace with one log line; the
    records after that are counted in ``lost`` and dropped.
    """

    _PERIOD_S = 0.1
    _MOST_QUEUED = 65_536

    def __init__(self, path: str) -> None:
        """Open ``path`` for appending.

        Raises:
            ConfigError: the file can't be opened; the message names the setting and the path.
        """
        try:
            self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise ConfigError(
                f"radixflow settings: field 'trace_path' is {path!r}, which can't be opened ({error}); "
                "give a file in a folder that exists and is writable"
            ) from error
        self.lost = 0
        self._failed = False
        self._queued: deque[RoundRecord] = deque()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="radixflow-trace", daemon=True)
        self._thread.start()

    def write(self, record: RoundRecord) -> None:
        """Leave the record for the thread; drop and count it when the thread is far behind or has failed."""
        if self._failed or len(self._queued) >= self._MOST_QUEUED:
            self.lost += 1
            return
        self._queued.append(record)

    def close(self) -> None:
        """Write what is queued (5 seconds at most) and close the file."""
        self._closing.set()
        self._thread.join(timeout=5.0)

    def _run(self) -> None:
        try:
            with self._file:
                while not self._closing.wait(self._PERIOD_S):
                    self._drain()
                self._drain()
        except Exception as error:  # noqa: BLE001 - a record that is no JSON, too, ends the trace only
            self._failed = True
            self.lost += len(self._queued)
            self._queued.clear()
            logger.warning("radixflow: the round trace stops here, serving goes on: %s", error)

    def _drain(self) -> None:
        if not self._queued:
            return
        while self._queued:
            record = self._queued.popleft()
            self._file.write(json.dumps(record.to_json(), separators=(",", ":")) + "\n")
        self._file.flush()
