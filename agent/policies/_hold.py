"""Maintenance holds: an operator's word that nothing be done to a workload, or to all, until a time."""

from __future__ import annotations

from dataclasses import dataclass

from agent.model import Json
from agent.policies import _kept

ALL = ""
MOST = 256
LONGEST_NS = 7 * 86400 * 10**9
_WHY = 256


@dataclass(frozen=True, slots=True)
class Hold:
    """`until_ns` is CLOCK_MONOTONIC."""

    until_ns: int
    why: str


class Holds:
    """By workload; ALL stands for every one of them."""

    def __init__(self) -> None:
        """Start without one."""
        self._all: dict[str, Hold] = {}

    def put(self, name: str | None, until_ns: int, why: str) -> None:
        """Hold `name` (None: all); a later hold replaces an earlier one."""
        if len(self._all) < MOST or (name or ALL) in self._all:
            self._all[name or ALL] = Hold(until_ns, why[:_WHY])

    def lift(self, name: str | None) -> bool:
        """End a hold (None: that of all, and every other); gives whether there was one."""
        found = bool(self._all) if name is None else name in self._all
        if name is None:
            self._all.clear()
        else:
            self._all.pop(name, None)
        return found

    def of(self, name: str, now_ns: int) -> Hold | None:
        """Give the hold that binds `name` now, the longest; expired ones are none."""
        bound = [hold for key in (name, ALL) if (hold := self._all.get(key)) is not None and hold.until_ns > now_ns]
        return max(bound, key=lambda hold: hold.until_ns, default=None)

    def itself(self, name: str, now_ns: int) -> bool:
        """Whether `name` itself is on hold now, and not just everything."""
        hold = self._all.get(name)
        return hold is not None and hold.until_ns > now_ns

    def any(self, now_ns: int) -> Hold | None:
        """Give the longest hold of all: while a person works on the machine it is not to be rebooted."""
        return max(
            (hold for hold in self._all.values() if hold.until_ns > now_ns), key=lambda hold: hold.until_ns, default=None
        )

    def expire(self, now_ns: int) -> bool:
        """Forget those that are over; gives whether there was one."""
        over = [name for name, hold in self._all.items() if hold.until_ns <= now_ns]
        for name in over:
            del self._all[name]
        return bool(over)

    def plain(self) -> Json:
        """Give them as JSON."""
        return {name: {"until_ns": hold.until_ns, "why": hold.why} for name, hold in self._all.items()}

    def restore(self, value: Json, shift_ns: int, now_ns: int) -> None:
        """Take back what `plain` gave; none lasts longer than one that is given now could. Raises StoreError."""
        rows, latest_ns = _kept.table(value, MOST), now_ns + LONGEST_NS
        self._all = {
            name: Hold(
                min(_kept.time(_kept.row(one), "until_ns") + shift_ns, latest_ns), _kept.text(_kept.row(one), "why")[:_WHY]
            )
            for name, one in rows.items()
        }
