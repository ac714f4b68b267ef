"""Who belongs to whom: descent, sessions and environments in /proc, for processes that may vanish at any moment."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_DEEPEST = 64  # generations between a workload and who speaks for it
_ENVIRONMENT = 256 * 1024


class Stat(NamedTuple):
    """What /proc/PID/stat says; `started` in ticks since boot: with the pid it names one process of this boot."""

    state: str
    parent: int
    group: int
    session: int
    started: int


def parse_stat(text: str) -> Stat | None:
    """Read a /proc/PID/stat text; the name in it may hold anything, so fields count from the last bracket."""
    fields = text.rpartition(")")[2].split()
    try:
        return Stat(fields[0], *(int(fields[at]) for at in (1, 2, 3, 19)))
    except (IndexError, ValueError):
        return None


def stat(pid: int, root: Path = PROC) -> Stat | None:
    """Read about `pid`; None if there is no such process."""
    try:
        return parse_stat((root / str(pid) / "stat").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def environ(pid: int, root: Path = PROC) -> frozenset[bytes]:
    """Give the entries (b"NAME=value") of the environment that `pid` was executed with; none if it is not ours to read."""
    try:
        with (root / str(pid) / "environ").open("rb") as file:
            return frozenset(filter(None, file.read(_ENVIRONMENT).split(b"\0")))
    except OSError:
        return frozenset()


def belongs(pid: int, main: int, entry: bytes, root: Path = PROC) -> bool:
    """Whether `pid` is `main`, of its session, a descendant of it, or was at least started with its environment's `entry`."""
    if pid == main:
        return True
    found = stat(pid, root)
    if found is None:
        return False
    return found.session == main or _descends(found, main, root) or entry in environ(pid, root)


def _descends(found: Stat | None, main: int, root: Path) -> bool:
    for _ in range(_DEEPEST):
        if found is None or found.parent <= 1:
            return False
        if found.parent == main:
            return True
        found = stat(found.parent, root)
    return False


def children(root: Path = PROC) -> list[int]:
    """Give the children of this process, oldest first; none if that cannot be read."""
    own = str(os.getpid())
    try:
        return [int(pid) for pid in (root / own / "task" / own / "children").read_text().split()]
    except OSError:  # CONFIG_PROC_CHILDREN is off, or no descriptor is left
        with suppress(OSError):
            return [pid for pid in pids(root) if (found := stat(pid, root)) and found.parent == os.getpid()]
        return []


def pids(root: Path = PROC) -> Iterator[int]:
    """Yield all processes."""
    yield from (int(name) for name in os.listdir(root) if name.isdecimal())  # noqa: PTH208 - one string each is enough
