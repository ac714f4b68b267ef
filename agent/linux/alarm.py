"""One timer for whoever has something to do at a time of its own, set anew again and again."""

from __future__ import annotations

from collections.abc import Callable

from agent.linux.loop import EpollLoop
from agent.linux.timers import Timer
from agent.ports import Clock

SOONEST_S = 0.02  # between two alarms: one that is always overdue does not spin the loop


class Alarm:
    """Calls `callback` at the time last set. A time that moves on is not followed: the alarm comes early, and is set anew.

    So a deadline that moves with every beat costs a look, not a system call each time.
    """

    def __init__(self, loop: EpollLoop, clock: Clock, callback: Callable[[], None], name: str) -> None:
        self._loop = loop
        self._clock = clock
        self._callback = callback
        self._name = name
        self._timer: Timer | None = None
        self._armed_ns = 0
        self._rung_ns = 0

    def set(self, due_ns: int | None) -> None:
        """Ring at `due_ns` (CLOCK_MONOTONIC), at once if that has passed; None: not before it is set again."""
        if due_ns is None or (self._timer is not None and self._armed_ns <= due_ns):
            return
        if self._timer is not None:
            self._timer.cancel()
        at = max(due_ns, self._rung_ns + int(SOONEST_S * 1e9))
        self._armed_ns = at
        self._timer = self._loop.once((at - self._clock.mono_ns()) / 1e9, self._ring, self._name)

    def _ring(self) -> None:
        self._timer = None
        self._rung_ns = self._clock.mono_ns()
        self._callback()
