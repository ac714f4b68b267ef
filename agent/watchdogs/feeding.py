"""When to feed the watchdogs, and how near it came. Pure.

A feed is due exactly when everything that must work has reported since the last one: a report makes it due, never a timer.
agentd's own tick is one of the names, so that its loop is proved as well, and the rate of feeds is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from agent import histogram
from agent.histogram import Histogram

NS = 1_000_000_000
AGENTD = "agentd"
HOUR_NS, HOURS = 3600 * NS, 24
EXCUSED_MOST_NS = 900 * NS  # since the name's last own report: no excuse goes on for ever


class Feeder(Protocol):
    """Something that resets the machine unless it is fed: a kernel watchdog, the microcontroller's lease."""

    @property
    def name(self) -> str:
        """As it is shown: `watchdog0`, `mcu`."""
        ...

    @property
    def ttl_s(self) -> float:
        """How long it waits."""
        ...

    def feed(self) -> None:
        """Start its count anew; may block, and runs on the feeding thread. Raises OSError."""
        ...


class Gate:
    """Holds who must report. Times are CLOCK_MONOTONIC: a step of the wall clock changes nothing here."""

    def __init__(self, now_ns: int) -> None:
        """Require agentd alone."""
        self.hold = False
        """Maintenance: agentd's own tick is enough."""
        self.since_ns = now_ns
        """The last feed."""
        self._began = {AGENTD: now_ns}
        self._reported: set[str] = set()
        self._excused: dict[str, int] = {}

    def require(self, names: Iterable[str], now_ns: int) -> None:
        """Require these, and agentd always; what is new counts from now on."""
        wanted = {AGENTD, *names}
        self._began = {name: self._began.get(name, now_ns) for name in wanted}
        self._reported &= wanted
        self._excused = {name: until for name, until in self._excused.items() if name in wanted}

    def report(self, name: str, t_ns: int) -> None:
        """Take in that `name` works; who is not required changes nothing."""
        if name in self._began:
            self._began[name] = max(self._began[name], t_ns)
            self._reported.add(name)

    def excuse(self, name: str, until_ns: int) -> None:
        """Count `name` as working until then: it starts, reloads, or the machine is starved. Bounded since its last report."""
        if name in self._began and name != AGENTD:
            self._excused[name] = min(until_ns, self._began[name] + EXCUSED_MOST_NS)

    def missing(self, now_ns: int) -> tuple[str, ...]:
        """Give who has not reported since the last feed, and is not excused now."""
        wanted = {AGENTD} if self.hold else self._began.keys()
        late = wanted - self._reported
        return tuple(sorted(name for name in late if self._excused.get(name, 0) <= now_ns))

    def take(self, now_ns: int) -> bool:
        """Tell whether a feed is due, and begin the next round if so."""
        if self.missing(now_ns):
            return False
        self.since_ns = now_ns
        self._reported.clear()
        return True


class Margins:
    """How near one feeder came to its end: the time that was left at each feed, over the last 24 hours."""

    def __init__(self, ttl_s: float, now_ns: int) -> None:
        """Start with a full count."""
        self.ttl_s = ttl_s
        self.fed_ns = now_ns
        self.feeds = 0
        self._hour_ns = now_ns
        self._counts = [0] * histogram.BUCKETS
        self._peak_ns = 0
        self._past: deque[Histogram] = deque(maxlen=HOURS)

    def fed(self, now_ns: int) -> None:
        """Take in a feed that worked."""
        gap = max(0, now_ns - self.fed_ns)
        if now_ns - self._hour_ns >= HOUR_NS:
            self._past.append(self._now())
            self._hour_ns, self._counts, self._peak_ns = now_ns, [0] * histogram.BUCKETS, 0
        self._counts[histogram.bucket(gap)] += 1
        self._peak_ns = max(self._peak_ns, gap)
        self.fed_ns = now_ns
        self.feeds += 1

    def margin_s(self, now_ns: int) -> float:
        """Give what is left now; below 0 it should have reset the machine already."""
        return self.ttl_s - (now_ns - self.fed_ns) / NS

    def margin_p1_s(self) -> float | None:
        """Give the margin that 99 of 100 feeds kept or exceeded; None before the first.

        A feed's margin is the time-out less the gap before it, and the gap's p99 is an upper edge: never told too well.
        """
        gaps = histogram.total([*self._past, self._now()])
        return self.ttl_s - gaps.quantile_ns(0.99) / NS if gaps.count else None

    def _now(self) -> Histogram:
        return histogram.of(self._counts, self._peak_ns)
