"""How long a workload may be silent, learned: TCP's retransmission timer (RFC 6298) over the intervals between its beats.

    target = the largest of mean + 4 x deviation (gains 1/8, 1/4), 2 x mean (a beat may be lost), 1.5 x this interval
    deadline: from the start value widened to the target at once, narrowed towards it with a half-life of three times the
    healthy time seen so far

What is rare and regular (a garbage collection every few minutes, a rotation every night) must not be forgotten in between: the
deviation alone forgets it within a dozen beats. So the deadline falls by a power of time, and what widens it later is
remembered for as long as the workload has been watched. Measured against phi-accrual and a fixed time-out: docs/watchdog.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.errors import StoreError
from agent.model import Data, Json

Phase: TypeAlias = Literal["start", "run", "reload", "stop"]
PHASES: tuple[Phase, ...] = ("start", "run", "reload", "stop")

MEAN_GAIN, DEVIATION_GAIN, DEVIATIONS = 1 / 8, 1 / 4, 4
PEAK = 1.5
MEMORY, HALF_LIFE_S = 3, (60.0, 7 * 86400.0)
LONGEST_S, SPAN_MOST_S = 86400.0, 30 * 86400.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """Of the deadline in one phase, in seconds. `backoff_s`: misses alone double it no further than to this."""

    first_s: float
    floor_s: float
    ceiling_s: float
    backoff_s: float


FLOOR_S = 2.0
"""Beats reach agentd at most once a second, so that a shorter deadline would measure the keeper."""
_SLOW: dict[Phase, Bounds] = {
    # Programs of this trade start in 15 to 92 s, and the same program differs by as much (a cold cache, a model to compile):
    # what is learned here only widens. The first values are those of systemd (TimeoutStopSec=90) or above.
    "start": Bounds(120, 120, 600, 600),
    "reload": Bounds(60, 30, 600, 600),
    "stop": Bounds(90, 10, 600, 600),
}


def bounds(phase: Phase, deadline_s: float, ceiling_s: float | None, wish_s: float | None) -> Bounds:
    """Give the bounds for a workload with start value `deadline_s`, below the hardware's `ceiling_s`.

    `wish_s` is the program's own WATCHDOG_USEC: it is the first value, and the deadline is never longer (but for the floor).
    """
    if phase != "run":
        slow = _SLOW[phase]
        return slow if phase != "start" or deadline_s <= slow.first_s else Bounds(deadline_s, deadline_s, LONGEST_S, LONGEST_S)
    ceiling = max(FLOOR_S, min(ceiling_s or LONGEST_S, wish_s or LONGEST_S))
    first = min(wish_s or deadline_s, ceiling)
    return Bounds(first, FLOOR_S, ceiling, first)


@dataclass(slots=True)
class Estimate:
    """What is known of one workload in one phase."""

    mean_s: float = 0.0
    deviation_s: float = 0.0
    count: int = 0
    span_s: float = 0.0
    """Sum of all intervals learned."""
    held_s: float = 0.0
    """The deadline before its bounds; 0: nothing is known."""

    def deadline_s(self, within: Bounds) -> float:
        """Give the deadline."""
        return min(max(self.held_s or within.first_s, within.floor_s), max(within.ceiling_s, within.floor_s))

    def learn(self, interval_s: float, within: Bounds) -> None:
        """Take in one healthy interval."""
        self.held_s = self.held_s or within.first_s
        interval_s = min(max(interval_s, 0.0), LONGEST_S)
        if self.count:
            error = interval_s - self.mean_s
            self.deviation_s += DEVIATION_GAIN * (abs(error) - self.deviation_s)
            self.mean_s += MEAN_GAIN * error
        else:
            self.mean_s, self.deviation_s = interval_s, interval_s / 2
        target = max(self.mean_s + max(self.mean_s, DEVIATIONS * self.deviation_s), PEAK * interval_s)
        if target >= self.held_s:
            self.held_s = target
        else:
            half_life = min(max(MEMORY * self.span_s, HALF_LIFE_S[0]), HALF_LIFE_S[1])
            self.held_s += (target - self.held_s) * (1 - 0.5 ** (interval_s / half_life))
        self.count += 1
        self.span_s = min(self.span_s + interval_s, SPAN_MOST_S)

    def missed(self, within: Bounds) -> None:
        """Back off after a missed deadline: nobody knows whether it was just."""
        now = self.deadline_s(within)
        self.held_s = max(self.held_s, min(2 * now, max(now, within.backoff_s)))

    def refuted(self, silent_s: float) -> None:
        """Widen after a beat that came later than the deadline: that silence was no death."""
        self.held_s = max(self.held_s, min(1.25 * silent_s, LONGEST_S))

    def plain(self) -> Data:
        """Give it as JSON."""
        return {
            "mean_s": round(self.mean_s, 6),
            "deviation_s": round(self.deviation_s, 6),
            "count": self.count,
            "span_s": round(self.span_s, 3),
            "held_s": round(self.held_s, 6),
        }


def plain(phases: dict[Phase, Estimate]) -> Data:
    """Give the estimates of one workload as JSON; without those that know nothing."""
    return {phase: estimate.plain() for phase, estimate in phases.items() if estimate.held_s}


def all_restored(row: Json) -> dict[Phase, Estimate]:
    """Read back what `plain` gave. Raises StoreError for anything else."""
    if not isinstance(row, dict):
        raise StoreError(f"not the deadlines of a workload: {str(row)[:80]}")
    return {phase: restored(row[phase]) for phase in PHASES if phase in row}


def restored(value: Json) -> Estimate:
    """Read back what `Estimate.plain` gave. Raises StoreError for anything else."""
    if not isinstance(value, dict) or not isinstance(value.get("count"), int):
        raise StoreError(f"not an estimate of a deadline: {str(value)[:80]}")
    count = value["count"]
    assert isinstance(count, int)
    if not 0 <= count < 1 << 53:
        raise StoreError(f"an estimate of a deadline counts {str(count)[:30]} intervals")
    mean_s, deviation_s, held_s = (_seconds(value, key) for key in ("mean_s", "deviation_s", "held_s"))
    return Estimate(mean_s, deviation_s, count, _seconds(value, "span_s", SPAN_MOST_S), held_s)


def _seconds(holder: Data, key: str, most_s: float = LONGEST_S) -> float:
    found = holder.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= most_s:  # not NaN either
        raise StoreError(f"an estimate of a deadline has {key} = {str(found)[:30]}, allowed: 0 .. {most_s:g}")
    return float(found)
