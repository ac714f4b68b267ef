"""One watched workload: its phase, since when it is silent, and what it is allowed."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from agent.detectors._adaptive import PHASES, Bounds, Estimate, Phase, bounds
from agent.detectors._margins import Margins
from agent.detectors._starvation import HEALTHY_SHARE, STRETCH, Totals, direct_s, starved_s

NS = 1_000_000_000
PENDING = 256  # intervals between two looks at the machine's pressure; what is more is not learned from

OF_STATE: dict[str, Phase] = {"starting": "start", "running": "run", "reloading": "reload", "stopping": "stop"}
"""The phase in each state of the keeper; in other states there is nothing to be watched."""
PROVEN: dict[str, tuple[Phase, ...]] = {"none": (), "ready": ("start", "reload", "stop"), "watchdog": PHASES}
"""In which phases its silence means something, by what proves its life."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the configuration says of it."""

    deadline_s: float
    ceiling_s: float | None
    liveness: str


@dataclass(slots=True)
class Silence:
    """Times are CLOCK_MONOTONIC in ns."""

    known: Known
    estimates: dict[Phase, Estimate]
    phase: Phase | None = None
    pid: int | None = None
    source: str = ""
    """Who tells of it: its silence means nothing while that one is away."""
    began_ns: int = 0
    """When this phase began."""
    since_ns: int = 0
    """The newest sign of life."""
    base: Totals = field(default_factory=Totals)
    """The counters at that time, or before."""
    patience_ns: int = 0
    """Until when the program asked for patience."""
    extended: bool = False
    """Whether it did so in this phase."""
    wish_s: float | None = None
    """The program's own WATCHDOG_USEC, if it is another than the configured one that it was handed."""
    off: bool = False
    """It switched its watchdog off (WATCHDOG_USEC=0)."""
    looked_ns: int = 0
    suspect_ns: int | None = None
    """When the deadline was first found to be over."""
    missed: bool = False
    missed_pid: int | None = None
    misses: int = 0
    margins: Margins = field(default_factory=Margins)
    pending: deque[float] = field(default_factory=lambda: deque(maxlen=PENDING))
    pending_base: Totals = field(default_factory=Totals)

    @property
    def watched(self) -> bool:
        """Whether its silence means something now."""
        if (self.phase == "run" and self.off) or (self.phase == "start" and self.pid is None):  # it waits for its `after`
            return False
        return self.phase in PROVEN[self.known.liveness]

    def wishes(self, watchdog_us: float, *, told_by_keeper: bool) -> None:
        """Take note of the WATCHDOG_USEC in force; 0: there is none."""
        wish_s = watchdog_us / 1e6
        self.wish_s = wish_s if wish_s > 0 and abs(wish_s - self.known.deadline_s) > 1e-3 else None
        self.off = told_by_keeper and not wish_s

    def bounds(self, phase: Phase) -> Bounds:
        """Give the bounds of its deadline in `phase`."""
        return bounds(phase, self.known.deadline_s, self.known.ceiling_s, self.wish_s)

    def deadline_s(self, phase: Phase) -> float:
        """Give its deadline in `phase`."""
        return self.estimates.setdefault(phase, Estimate()).deadline_s(self.bounds(phase))

    def alive(self, at_ns: int, totals: Totals) -> None:
        """Take note of a sign of life."""
        self.since_ns = max(self.since_ns, at_ns)
        self.base, self.suspect_ns = totals, None

    def silent_s(self, now_ns: int) -> float:
        """Give how long it has been silent."""
        return max(0, now_ns - self.since_ns) / NS

    def starved_s(self, totals: Totals, now_ns: int) -> float:
        """Give how much of that is not counted."""
        most = (STRETCH - 1) * self.deadline_s(self.phase or "run")
        return min(starved_s(self.base, totals, self.silent_s(now_ns)), most)

    def due_ns(self, totals: Totals, now_ns: int) -> int:
        """Give when its deadline is over, as far as that is known at `now_ns`."""
        allowed = self.deadline_s(self.phase or "run") + self.starved_s(totals, now_ns)
        return max(self.since_ns + round(allowed * NS), self.patience_ns)

    def wait(self, intervals_s: list[float], totals: Totals) -> None:
        """Keep intervals until it is known whether the machine was starved meanwhile."""
        if not self.pending:
            self.pending_base = totals
        self.pending.extend(intervals_s)

    def settle(self, totals: Totals) -> None:
        """Learn the intervals that waited, if they were healthy ones."""
        waited, elapsed_s = list(self.pending), (totals.at_ns - self.pending_base.at_ns) / NS
        self.pending.clear()
        if direct_s(self.pending_base, totals, elapsed_s) <= HEALTHY_SHARE * elapsed_s:
            estimate = self.estimates.setdefault("run", Estimate())
            within = self.bounds("run")
            for interval in waited:
                estimate.learn(interval, within)
