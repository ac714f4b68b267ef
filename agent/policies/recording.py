"""recording: which events are worth flash when a fault repeats without end. Token buckets, and a count of what was left out.

Every event is shown to the detectors; this decides only whether it becomes a record of its own. On flash a record costs about
10 KB (measured, with its share of SQLite's log), so that an unlimited storm would write gigabytes a day.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from agent.model import Sighting

NS = 1_000_000_000
SUBJECTS = 256  # whose buckets are remembered; the longest unheard goes first


@dataclass(frozen=True, slots=True)
class Rate:
    """`burst` at once, then `per_minute`."""

    burst: int
    per_minute: float


EACH = Rate(120, 6)
"""Events of one kind and subject."""
ALL = Rate(600, 20)
"""All events together. A critical one is recorded even if this bucket is empty, as long as its own is not."""


@dataclass(slots=True)
class _Bucket:
    tokens: float
    filled_ns: int
    left_out: int = 0

    def take(self, rate: Rate, now_ns: int) -> bool:
        gained = max(0, now_ns - self.filled_ns) / NS * rate.per_minute / 60
        self.tokens = min(float(rate.burst), self.tokens + gained)
        self.filled_ns = max(self.filled_ns, now_ns)
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Recording:
    """Pure: time is that of the sightings."""

    def __init__(self) -> None:
        """Start with full buckets."""
        self._all = _Bucket(float(ALL.burst), 0)
        self._each: OrderedDict[tuple[str, str], _Bucket] = OrderedDict()
        self.left_out = 0

    def keep(self, sighting: Sighting) -> int | None:
        """Give how many like it were left out since the last record, if this one is to be recorded; else None."""
        key = (sighting.kind, sighting.subject)
        bucket = self._each.pop(key, None) or _Bucket(float(EACH.burst), sighting.t_mono_ns)
        self._each[key] = bucket
        if len(self._each) > SUBJECTS:
            self._each.popitem(last=False)
        now = sighting.t_mono_ns
        if not bucket.take(EACH, now) or not (self._all.take(ALL, now) or sighting.severity == "critical"):
            bucket.left_out += 1
            self.left_out += 1
            return None
        left_out, bucket.left_out = bucket.left_out, 0
        return left_out
