"""Process deaths without eBPF: a pidfd (pidfd_open(2), 5.3) on each process of a watched name, found by looking through /proc.

The death itself comes as an event at once; what was born and died between two looks is missed, and the exit status belongs
to the parent alone: it is None here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from pathlib import Path

from agent.model import Data, Sighting
from agent.ports import Clock, Loop

_MOST = 64  # pidfds held at once


class PidWatch:
    """Watches the processes whose comm is in `comms`; `died(sighting)` is called on the loop."""

    def __init__(self, loop: Loop, clock: Clock, comms: Collection[str], died: Callable[[Sighting], None]) -> None:
        """Watch nothing yet."""
        self._loop = loop
        self._clock = clock
        self._comms = {comm[:15] for comm in comms}  # TASK_COMM_LEN less the NUL
        self._died = died
        self._fds: dict[int, int] = {}

    def look(self, root: Path = Path("/proc")) -> None:
        """Find processes that are not watched yet."""
        if not self._comms:
            return
        for folder in root.iterdir():
            pid = int(folder.name) if folder.name.isdecimal() else 0
            if pid and pid not in self._fds and len(self._fds) < _MOST:
                with contextlib.suppress(OSError):  # it ended meanwhile
                    comm = (folder / "comm").read_text(encoding="utf-8", errors="backslashreplace").rstrip("\n")
                    if comm in self._comms:
                        self._watch(pid, comm)

    def _watch(self, pid: int, comm: str) -> None:
        fd = os.pidfd_open(pid)
        self._fds[pid] = fd
        self._loop.on_readable(fd, lambda: self._ended(pid, comm), f"pidfd {comm}")

    def _ended(self, pid: int, comm: str) -> None:
        self._drop(pid)
        data: Data = dict.fromkeys(("code", "signal", "core", "oom", "workload"))
        data |= {"pid": pid, "tgid": pid, "comm": comm}
        self._died(Sighting(self._clock.mono_ns(), "process_exit", "proc.exit", comm, "warning", data))

    def _drop(self, pid: int) -> None:
        fd = self._fds.pop(pid)
        self._loop.forget(fd)
        os.close(fd)

    def close(self) -> None:
        """Watch nothing any more."""
        for pid in list(self._fds):
            self._drop(pid)
