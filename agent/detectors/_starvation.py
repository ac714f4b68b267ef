"""How much of a silence the machine is to blame for. Pure arithmetic over cumulative counters.

    starved = max(own run-queue wait, half of the CPU pressure) + max(memory full, I/O full)        at most the silence itself

Own wait is exact for what the workload did itself: a deadlocked program waits for no CPU, and is found on the busiest machine.
Of several threads the share counts, wait / (wait + run), as their waits overlap. CPU `full` has no meaning for a whole machine
(the kernel says 0): `some` is the time in which *anybody* waited. Half of it is allowed for peers that the workload waits for,
all of it where its own wait is not known. While every task waits for memory or disk nobody waits for a CPU: those times add up.
"""

from __future__ import annotations

from dataclasses import dataclass

PEERS = 0.5
US = 1_000_000
STRETCH = 8
"""No silence is longer than this many deadlines, however starved: a workload that gets an eighth of a CPU does not work."""
HEALTHY_SHARE = 0.2
"""Intervals are learned while the workload itself lost no more than this share of the time."""


@dataclass(frozen=True, slots=True)
class Totals:
    """Microseconds since boot, or since the workload began (`wait`, `run`; None: not known), as read at `at_ns`."""

    cpu_some: float = 0.0
    memory_full: float = 0.0
    io_full: float = 0.0
    wait: float | None = None
    run: float | None = None
    at_ns: int = 0


def direct_s(before: Totals, now: Totals, elapsed_s: float) -> float:
    """Give the seconds of `elapsed_s` that the workload itself could not use."""
    return min(elapsed_s, (_own_s(before, now) or 0.0) + _blocked_s(before, now))


def starved_s(before: Totals, now: Totals, elapsed_s: float) -> float:
    """Give the seconds of `elapsed_s` that are not counted against it."""
    some = _gain_s(before.cpu_some, now.cpu_some)
    own = _own_s(before, now)
    waited = some if own is None else max(own, PEERS * some)
    return min(elapsed_s, waited + _blocked_s(before, now))


def _own_s(before: Totals, now: Totals) -> float | None:
    if before.wait is None or now.wait is None:
        return None
    between_s, wait = max(0, now.at_ns - before.at_ns) / 1e9, _gain_s(before.wait, now.wait)
    if before.run is None or now.run is None:
        return wait
    wanted = wait + _gain_s(before.run, now.run)
    return wait if wanted <= between_s else between_s * wait / wanted


def _blocked_s(before: Totals, now: Totals) -> float:
    return max(_gain_s(before.memory_full, now.memory_full), _gain_s(before.io_full, now.io_full))


def _gain_s(before: float, now: float) -> float:
    return max(0.0, now - before) / US
