"""High-water marks of all message numbers of this boot, in `runtime_dir` (a tmpfs: no flash is written).

A number is on file before anything carries it, so that kill -9 of the agent, or the loss of the outbox, never leads to
the same `(boot, stream, seq)` on two different messages. A reboot empties the tmpfs and begins new streams.
"""

from __future__ import annotations

import errno
import json
import threading
from collections.abc import Mapping
from pathlib import Path

from agent import atomic, regular
from agent.errors import StoreError
from agent.model import Json

FILE = "sequences.json"


class Marks:
    """The last number given out per stream. Safe to use from several threads."""

    def __init__(self, runtime_dir: Path, boot_id: str) -> None:
        """Read the file; what is not ours or of another boot counts as none. Raises StoreError if it cannot be written."""
        self._path = runtime_dir / FILE
        self._boot_id = boot_id
        self._lock = threading.Lock()
        self._last = _read(self._path, boot_id)
        self.failures = 0
        try:
            self._write()
        except OSError as error:
            raise StoreError(_told(runtime_dir, error)) from error

    def last(self, stream: str) -> int:
        """Give the highest number of `stream` in this boot, 0 if there was none."""
        return self._last.get(stream, 0)

    def take(self, stream: str) -> int:
        """Give the next number of `stream`; it is on file when this returns (a failed write is counted)."""
        with self._lock:
            self._last[stream] = self._last.get(stream, 0) + 1
            self._save()
            return self._last[stream]

    def raise_to(self, marks: Mapping[str, int]) -> None:
        """Note numbers that were given out elsewhere (in the transactions of the outbox)."""
        with self._lock:
            higher = {stream: seq for stream, seq in marks.items() if seq > self._last.get(stream, 0)}
            if higher:
                self._last.update(higher)
                self._save()

    def _save(self) -> None:
        try:
            self._write()
        except OSError:
            self.failures += 1

    def _write(self) -> None:
        atomic.write_json(self._path, {"boot_id": self._boot_id, "last": dict[str, Json](self._last)})


def _told(folder: Path, error: OSError) -> str:
    why = error.strerror or str(error)
    if isinstance(error, IsADirectoryError):
        return f"{error.filename}: {why}: it is in the way of a file of agentd's: remove it"
    if error.errno == errno.EROFS:
        return f"{folder}: {why}; set paths.runtime_dir to a folder on a tmpfs that this user can write"
    return f"{folder}: {why}; make it a directory that this user can write (tmpfiles.d)"


def _read(path: Path, boot_id: str) -> dict[str, int]:
    try:
        content = json.loads(regular.read(path, 65536))
        last = content["last"] if content["boot_id"] == boot_id else {}
        return {str(key): seq for key, seq in last.items() if isinstance(seq, int) and 0 <= seq < 1 << 53}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}
