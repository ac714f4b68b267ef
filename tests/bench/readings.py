"""What /proc says of one process: memory, CPU time, wake-ups, bytes written. Parsers take text; readers take a pid."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
KIB_PER_MIB = 1024


@dataclass(frozen=True, slots=True)
class Mapping:
    """One entry of smaps: the file behind it ("" for anonymous memory), and KiB of it."""

    path: str
    rss: int
    private: int


def parse_smaps(text: str) -> list[Mapping]:
    """Give the mappings of a /proc/<pid>/smaps text."""
    found: list[Mapping] = []
    path, rss, private = "", 0, 0
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if not word.endswith(":"):  # an address range: the head of the next mapping
            fields = line.split(maxsplit=5)
            path, rss, private = (fields[5] if len(fields) > 5 and fields[5].startswith("/") else ""), 0, 0
        elif word == "Rss:":
            rss = _kib(rest)
        elif word in {"Private_Clean:", "Private_Dirty:", "Private_Hugetlb:"}:
            private += _kib(rest)
        elif word == "VmFlags:":
            found.append(Mapping(path, rss, private))
    return found


def _kib(text: str) -> int:
    return int(text.split(maxsplit=1)[0])


def uss_kib(mappings: Collection[Mapping], shared: AbstractSet[str] = frozenset(), *, alone: bool = False) -> int:
    """Give the private memory of a process in KiB.

    `alone`: as it would be if nobody else mapped a file that is not in `shared`. Other Python processes (this benchmark is
    one) share the interpreter's pages with agentd, and would make it look smaller than it is on a gateway.
    """
    return sum(item.rss if alone and item.path and item.path not in shared else item.private for item in mappings)


def parse_files(text: str) -> set[str]:
    """Give the files that a /proc/<pid>/maps text names."""
    lines = (line.split(maxsplit=5) for line in text.splitlines())
    return {fields[5] for fields in lines if len(fields) > 5 and fields[5].startswith("/")}


def files_of_others(ours: int) -> frozenset[str]:
    """Give the files mapped by any process that is neither Python nor a descendant of process `ours`."""
    found: set[str] = set()
    for pid in _pids():
        with contextlib.suppress(OSError):
            if not (PROC / str(pid) / "exe").readlink().name.startswith("python") and ours not in _ancestors(pid):
                found |= parse_files((PROC / str(pid) / "maps").read_text(errors="replace"))
    return frozenset(found)


def _pids() -> list[int]:
    return [int(entry.name) for entry in PROC.iterdir() if entry.name.isdecimal()]


def _ancestors(pid: int) -> Iterator[int]:
    while pid > 1:
        yield pid
        pid = int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


@dataclass(frozen=True, slots=True)
class Memory:
    """Private memory in KiB: as the kernel counts it now, and as it would be without other Python processes."""

    uss_kib: int
    alone_kib: int


def memory(pid: int) -> Memory:
    """Read the private memory of `pid`."""
    mappings = parse_smaps((PROC / str(pid) / "smaps").read_text(errors="replace"))
    return Memory(uss_kib(mappings), uss_kib(mappings, files_of_others(os.getpid()), alone=True))


def rss_kib(pid: int) -> int:
    """Read the resident memory of `pid`."""
    return sum(item.rss for item in parse_smaps((PROC / str(pid) / "smaps").read_text(errors="replace")))


@dataclass(frozen=True, slots=True)
class Usage:
    """Cumulative readings of all threads of a process.

    `wakeups` are voluntary switches: each ends a sleep. `preempted` are the others, which a busy neighbour causes.
    """

    cpu_ns: int
    wakeups: int
    preempted: int
    written: int


def usage(pid: int) -> Usage:
    """Read them: schedstat counts in nanoseconds, where utime and stime count in ticks of 10 ms."""
    cpu = wakeups = preempted = 0
    for task in (PROC / str(pid) / "task").iterdir():
        with contextlib.suppress(OSError):  # a thread that just ended
            cpu += int((task / "schedstat").read_text().split()[0])
            slept, pushed = parse_switches((task / "status").read_text(errors="replace"))
            wakeups, preempted = wakeups + slept, preempted + pushed
    return Usage(cpu, wakeups, preempted, parse_written((PROC / str(pid) / "io").read_text()))


def parse_switches(text: str) -> tuple[int, int]:
    """Give voluntary and other context switches of a /proc/<pid>/status text."""
    found = dict(line.split(":", 1) for line in text.splitlines() if "ctxt_switches:" in line)
    return int(found["voluntary_ctxt_switches"]), int(found["nonvoluntary_ctxt_switches"])


def parse_written(text: str) -> int:
    """Give `write_bytes` of a /proc/<pid>/io text: bytes that were to go to a block device."""
    return next(int(line.rpartition(":")[2]) for line in text.splitlines() if line.startswith("write_bytes:"))
