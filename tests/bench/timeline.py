"""Readings of running agents, second by second, and which of these seconds were idle ones."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tests.bench import readings
from tests.bench.readings import Usage

SETTLING_S = 2.5  # an event's commit comes within 20 ms, the mark that it was delivered a second later, its findings with it


@dataclass(frozen=True, slots=True)
class Slice:
    """What one process used between two times of CLOCK_MONOTONIC, in seconds."""

    begun: float
    ended: float
    cpu_ns: int
    wakeups: int
    preempted: int
    written: int

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.ended - self.begun

    @property
    def cpu_pct(self) -> float:
        """Per cent of one core."""
        return self.cpu_ns / self.seconds / 1e7


def between(begun: float, first: Usage, ended: float, last: Usage) -> Slice:
    """Give the slice between two readings."""
    cpu, wakeups = last.cpu_ns - first.cpu_ns, last.wakeups - first.wakeups
    return Slice(begun, ended, cpu, wakeups, last.preempted - first.preempted, last.written - first.written)


def watch(pids: Mapping[str, int], seconds: int) -> dict[str, list[Slice]]:
    """Read every process once a second."""
    found: dict[str, list[Slice]] = {name: [] for name in pids}
    last = {name: (time.monotonic(), readings.usage(pid)) for name, pid in pids.items()}
    for _ in range(seconds):
        time.sleep(1)
        for name, pid in pids.items():
            now = time.monotonic(), readings.usage(pid)
            found[name].append(between(*last[name], *now))
            last[name] = now
    return found


def whole(slices: Iterable[Slice]) -> Slice | None:
    """Give the sum of slices as one that is as long as all of them; None without any."""
    parts = list(slices)
    if not parts:
        return None
    length = sum(part.seconds for part in parts)
    sums = [sum(getattr(part, key) for part in parts) for key in ("cpu_ns", "wakeups", "preempted", "written")]
    return Slice(0.0, length, *sums)


def idle(slices: Sequence[Slice], events: Sequence[float]) -> list[Slice]:
    """Give the slices in which, and shortly before which, nothing happened; `events` are times of CLOCK_MONOTONIC."""
    times = sorted(events)

    def quiet(part: Slice) -> bool:
        at = bisect_left(times, part.begun - SETTLING_S)
        return at == len(times) or times[at] > part.ended

    return [part for part in slices if quiet(part)]
