"""Where round records go. A sink that fails is dropped; it never stops a round."""

from __future__ import annotations

import json
import logging
import queue
import threading
from abc import ABC, abstractmethod
from collections import deque
from pathlib import Path
from types import TracebackType

from radixflow.errors import ConfigError
from radixflow.telemetry.records import RoundRecord

logger = logging.getLogger("radixflow")


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
    """One JSON object a line, written by a thread of its own.

    A disk that fills up, or a folder that is removed, ends the trace with one log line; the records after
    that are counted in ``lost`` and dropped.
    """

    _QUEUE_LIMIT = 65_536

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
        self._queue: queue.Queue[RoundRecord | None] = queue.Queue(self._QUEUE_LIMIT)
        self._thread = threading.Thread(target=self._drain, name="radixflow-trace", daemon=True)
        self._thread.start()

    def write(self, record: RoundRecord) -> None:
        """Hand the record to the thread; drop and count it when the thread is far behind."""
        if self._failed:
            self.lost += 1
            return
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.lost += 1

    def close(self) -> None:
        """Write what is queued (5 seconds at most) and close the file."""
        if self._thread.is_alive():
            self._queue.put(None)
            self._thread.join(timeout=5.0)

    def __enter__(self) -> JsonLinesSink:
        """Return the sink itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close."""
        self.close()

    def _drain(self) -> None:
        try:
            with self._file:
                while (record := self._queue.get()) is not None:
                    self._file.write(json.dumps(record.to_json(), separators=(",", ":")) + "\n")
                    if self._queue.empty():
                        self._file.flush()
        except OSError as error:
            self._failed = True
            logger.warning("the round trace stops here, serving goes on: %s", error)
