"""The packets that a decoder may have to be told again: from the last random-access point on, bounded. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from agent.video.steps import DEEPEST, Step

MOST_BYTES = 32 * 2**20
"""Ten seconds of 25 Mbit/s."""
MOST_PACKETS = 1500
_SPARE = 2
"""Groups that are kept though every picture of them is out: an open one leans on the one before."""
_WRITTEN_OFF = 2 * DEEPEST
"""So many packets behind one whose picture is out, a picture will not come any more."""


@dataclass(slots=True)
class _Group:
    """A random-access point and what follows it, up to the next one."""

    closed: bool
    steps: deque[Step] = field(default_factory=deque)


class Replay:
    """Keeps steps in order, and which of them have given no picture yet."""

    def __init__(self, most_bytes: int = MOST_BYTES, most_packets: int = MOST_PACKETS) -> None:
        self.lost = 0
        """Packets whose picture never came, and will not."""
        self._most_bytes, self._most_packets = most_bytes, most_packets
        self._groups: deque[_Group] = deque()
        self._pending: dict[int, Step] = {}
        self._bytes = 0
        self._packets = 0

    def add(self, step: Step) -> None:
        """Keep one more; forget what nobody needs any longer, or what is above the bounds."""
        if step.entry or not self._groups:
            self._groups.append(_Group(step.closed))
        self._groups[-1].steps.append(step)
        self._pending[step.packet.serial] = step
        self._bytes += len(step.packet.data)
        self._packets += 1
        while len(self._groups) > _SPARE and not self._waits(self._groups[0]):
            self._forget()
        while self._packets > 1 and (self._bytes > self._most_bytes or self._packets > self._most_packets):
            self._forget()

    def _waits(self, group: _Group) -> bool:
        return group.steps[-1].packet.serial >= next(iter(self._pending), group.steps[-1].packet.serial + 1)

    def _forget(self) -> None:
        """Drop the oldest group, or the oldest step of the only one."""
        steps = self._groups[0].steps
        count = len(steps) if len(self._groups) > 1 else 1
        for _ in range(count):
            step = steps.popleft()
            self._bytes -= len(step.packet.data)
            self._packets -= 1
            self.lost += self._pending.pop(step.packet.serial, None) is not None
        if not steps:
            self._groups.popleft()

    def waiting(self, serial: int) -> Step | None:
        """Give the step whose picture is wanted; None if it was delivered already, or was never asked for."""
        return self._pending.get(serial)

    def answered(self, serial: int) -> None:
        """Note that the picture of a step is out; those far behind it will not come any more."""
        self._pending.pop(serial, None)
        while self._pending and (first := next(iter(self._pending))) < serial - _WRITTEN_OFF:
            self.abandon(first)

    def abandon(self, serial: int) -> None:
        """Give up the picture of a step."""
        self.lost += self._pending.pop(serial, None) is not None

    def clear(self) -> None:
        """Give up everything that is still wanted, and forget all."""
        self.lost += len(self._pending)
        self._pending.clear()
        self._groups.clear()
        self._bytes = self._packets = 0

    @property
    def oldest(self) -> Step | None:
        """The first step whose picture is still wanted."""
        return next(iter(self._pending.values()), None)

    @property
    def pending(self) -> int:
        """How many pictures are wanted."""
        return len(self._pending)

    def again(self) -> tuple[Step, ...]:
        """Give what another decoder must be told so that it can give every picture that is still wanted."""
        oldest = self.oldest
        if oldest is None:
            return ()
        groups = list(self._groups)
        start = next(at for at, group in enumerate(groups) if group.steps[-1].packet.serial >= oldest.packet.serial)
        if not groups[start].closed and start > 0:
            start -= 1
        return tuple(step for group in groups[start:] for step in group.steps)
