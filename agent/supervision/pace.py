"""How often agentd takes its turn at the watchdogs, besides its own tick: as often as the shortest time-out wants it."""

from __future__ import annotations

from collections.abc import Callable

from agent.ports import Cancellable, Loop


class Pace:
    """One extra timer, while a watchdog wants more turns than one each `slow_s`, which come anyway."""

    def __init__(self, loop: Loop, slow_s: float) -> None:
        """Call nothing yet."""
        self._loop, self._slow_s = loop, slow_s
        self._wanted_s: float | None = None
        self._timer: Cancellable | None = None

    def keep(self, wanted_s: float | None, turn: Callable[[], None]) -> None:
        """Have `turn` called each `wanted_s` from now on; None, or what is no less than `slow_s`, wants nothing more."""
        needed = wanted_s if wanted_s is not None and wanted_s < self._slow_s else None
        if needed == self._wanted_s:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._wanted_s = needed
        self._timer = None if needed is None else self._loop.every(needed, turn, "feeding")
