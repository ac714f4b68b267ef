"""What one keeper leaves to the next: which process runs each workload. A file in the runtime folder, gone after a reboot."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent import atomic, regular
from agent.model import Data

_LIMIT = 256 * 1024
_PIDS = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h


@dataclass(frozen=True, slots=True)
class Record:
    """One workload as the keeper left it; `started` is its process' start in ticks since boot, `pid` None without a process."""

    pid: int | None
    started: int
    ready: bool = False
    restarts: int = 0
    profile: str = ""
    held: bool = False
    wanted: bool = True


class Memory:
    """The file. One that cannot be written or read costs the exactness of an adoption, nothing else."""

    def __init__(self, path: Path) -> None:
        """Nothing is read or written yet."""
        self._path = path
        self._saved: Data | None = None

    def save(self, rows: Data) -> None:
        """Write `rows` (by workload, the fields of `Record`) if they changed."""
        if rows != self._saved:
            with suppress(OSError):  # tried again whenever something happens
                atomic.write_json(self._path, rows)
                self._saved = rows

    def load(self) -> dict[str, Record]:
        """Give the records that are of the right form."""
        try:
            rows = json.loads(regular.read(self._path, _LIMIT))
        except (OSError, ValueError, RecursionError):
            return {}
        found = {}
        for name, row in rows.items() if isinstance(rows, dict) else ():
            with suppress(TypeError, AssertionError):
                record = Record(**row)
                assert record.pid is None or (type(record.pid) is int and 0 < record.pid <= _PIDS)
                assert type(record.started) is int
                assert type(record.restarts) is int
                assert type(record.ready) is bool
                assert type(record.profile) is str
                assert type(record.held) is bool
                assert type(record.wanted) is bool
                found[name] = record
        return found
