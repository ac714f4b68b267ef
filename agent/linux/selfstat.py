"""What this process itself costs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent.linux import procfs


@dataclass(frozen=True, slots=True)
class SelfStat:
    """Cumulative readings of one process, `uss_kib` being the momentary one; what cannot be read is None."""

    uss_kib: int | None
    cpu_s: float | None
    wakeups: int
    """Voluntary context switches of all threads: each is a sleep that ended, so a wake-up (a preemption is none)."""
    flash_bytes: int | None
    """Bytes sent to block devices on behalf of this process (write_bytes of /proc/self/io)."""


def read(root: Path = procfs.ROOT) -> SelfStat:
    """Read all of it: about 0.5 ms."""
    process = procfs.read_process("self", root)
    return SelfStat(process.uss_kib, process.cpu_s, _wakeups(root / "proc/self/task"), process.written_bytes)


def _wakeups(tasks: Path) -> int:
    texts = (procfs.read(task / "status") or "" for task in tasks.iterdir())  # none of a thread that just ended
    return sum(procfs.parse_fields(text).get("voluntary_ctxt_switches", 0) for text in texts)
