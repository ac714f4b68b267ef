"""How often each rung was taken, for each workload (or the machine), and when it may be taken again."""

from __future__ import annotations

from collections import deque

from agent.model import Data, Json
from agent.policies import _kept
from agent.policies._rungs import INDEX, RUNGS, Rung

NS = 1_000_000_000
_MOST = 64 * len(RUNGS)


class Budgets:
    """Times are CLOCK_MONOTONIC in ns; only as many are kept as the budget counts."""

    def __init__(self) -> None:
        """Start with nothing taken."""
        self._taken: dict[str, deque[int]] = {}

    def charge(self, name: str, rung: Rung, now_ns: int) -> None:
        """Take note that `rung` is taken."""
        times = self._taken.setdefault(_key(name, rung), deque(maxlen=rung.budget))
        times.append(max(now_ns, times[-1] if times else now_ns))

    def spent(self, name: str, rung: Rung, now_ns: int) -> bool:
        """Whether the budget is used up for now."""
        times = self._taken.get(_key(name, rung))
        return times is not None and len(times) >= rung.budget and now_ns < times[0] + round(rung.window_s * NS)

    def cool_ns(self, name: str, rung: Rung) -> int:
        """Give when its cool-down is over; 0 if it was never taken."""
        times = self._taken.get(_key(name, rung))
        return times[-1] + round(rung.cooldown_s * NS) if times else 0

    def free_ns(self, name: str, rung: Rung) -> int:
        """Give when it may be taken again, by budget and cool-down; 0 if it may be now."""
        times = self._taken.get(_key(name, rung))
        if not times:
            return 0
        full = times[0] + round(rung.window_s * NS) if len(times) >= rung.budget else 0
        return max(full, self.cool_ns(name, rung))

    def plain(self) -> Data:
        """Give the times as JSON."""
        return {key: list[Json](times) for key, times in self._taken.items()}

    def restore(self, value: Json, shift_ns: int, now_ns: int) -> None:
        """Take back what `plain` gave; nothing was taken later than now. Raises StoreError."""
        found: dict[str, deque[int]] = {}
        for key, listed in _kept.table(value, _MOST).items():
            rung = RUNGS[INDEX[key.partition("/")[0]]] if key.partition("/")[0] in INDEX else None
            if rung is not None:  # a rung of another version has no budget here
                times = [min(_kept.time({"at": one}, "at") + shift_ns, now_ns) for one in _kept.items(listed, 1024)]
                found[key] = deque(sorted(times), maxlen=rung.budget)
        self._taken = found


def _key(name: str, rung: Rung) -> str:
    return rung.name if rung.machine else f"{rung.name}/{name}"
