"""Every time that decoding went on in another way, and how long no good picture came. Pure, bounded."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from agent.ports import Picture

KEPT = 1000
_OPEN = 64


@dataclass(frozen=True, slots=True)
class Switch:
    """From one decoder to another one, or to a new one of the same stage. `since_ns` is when what made it necessary came in.

    `recovery_ms` is from then to the first good picture of packet `serial` or later; None if none came.
    """

    at_ns: int
    since_ns: int
    serial: int
    old: str
    new: str
    reason: str
    recovery_ms: float | None = None


class Switches:
    """The last KEPT of them, oldest first; `count` counts all."""

    def __init__(self) -> None:
        self.count = 0
        self._open: deque[Switch] = deque(maxlen=_OPEN)
        self._done: deque[Switch] = deque(maxlen=KEPT)

    def begin(self, switch: Switch) -> None:
        """Note one that is made now."""
        self.count += 1
        if len(self._open) == _OPEN:
            self._done.append(self._open.popleft())
        self._open.append(switch)

    def shown(self, picture: Picture, now_ns: int) -> None:
        """Note a picture that has reached whoever wants it, adapted."""
        while self._open and not picture.corrupt and picture.serial >= self._open[0].serial:
            old = self._open.popleft()
            ms = round((now_ns - old.since_ns) / 1e6, 3)
            self._done.append(Switch(old.at_ns, old.since_ns, old.serial, old.old, old.new, old.reason, ms))

    def all(self) -> tuple[Switch, ...]:
        """Give those that are known."""
        return (*self._done, *self._open)
