"""Flag words: a bit that a write had just set (or cleared) is gone, and nobody who may change it wrote meanwhile.

Growth proves nothing there. The owner's write is done when its trap counts it; a later read of the word must show it, unless a
writer that changes the same bits was at work in between. All writes that may lie between the two count as possible ones:

- not before the owner's write are all but those that were counted when the previous trap on the owner's CPU was over;
- not after the read are those counted by then, and of each other CPU the next two: one may have been counted but not have
  looked at the count yet, one more may be done and not counted.

If none of them changes the bits, a writer that does not own them has undone them: it stored a word that it had read before.
Times are not used: a trap may be served long after the write, and its time says nothing about the moment of the read.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent.collider.hits import Hit
from agent.collider.instruction import Operation

AHEAD = 4  # later reads that are looked at
UNDER_WAY = 2  # writes of another CPU that may be done beyond those counted


@dataclass(frozen=True, slots=True)
class Undone:
    """`bits` that the write `owner` made are undone when `found` reads the word."""

    owner: Hit
    found: Hit
    bits: int


class _Window:
    """The hits of one window in order of their counts, all and of each CPU."""

    def __init__(self, hits: Sequence[Hit]) -> None:
        self.hits = sorted(hits, key=_count)
        self.lanes = {cpu: [hit for hit in self.hits if hit.cpu == cpu] for cpu in {hit.cpu for hit in hits}}

    def previous(self, hit: Hit) -> Hit | None:
        """Give the hit before, on the same CPU; None at the window's beginning, before which nothing is known."""
        lane = self.lanes[hit.cpu]
        index = bisect_left(lane, hit.before, key=_count)
        return lane[index - 1] if index else None

    def later(self, hit: Hit) -> Sequence[Hit]:
        """Give some hits that read the word certainly after `hit` had written."""
        index = bisect_right(self.hits, hit.before, key=_count)
        return self.hits[index : index + AHEAD]

    def between(self, before: Hit, reader: Hit) -> list[Hit] | None:
        """Give the hits whose write may lie after the trap of `before` and before the read of `reader`.

        None if some CPU has too few more to know what was under way when the window closed.
        """
        found: list[Hit] = []
        for cpu, lane in self.lanes.items():
            first = bisect_right(lane, before.after, key=_count)
            counted = bisect_right(lane, reader.after, key=_count)
            last = counted if cpu == reader.cpu else counted + UNDER_WAY
            if last > len(lane):
                return None
            found += lane[first:last]
        return found


def undone(hits: Sequence[Hit], operation: Callable[[int], Operation]) -> list[Undone]:
    """Find undone bits in one window in which every write was trapped: at most one for each write."""
    window = _Window(hits)
    found = (_undone(window, hit, operation) for hit in window.hits if operation(hit.ip).sets | operation(hit.ip).clears)
    return [case for case in found if case is not None]


def _undone(window: _Window, owner: Hit, operation: Callable[[int], Operation]) -> Undone | None:
    own = operation(owner.ip)
    previous = window.previous(owner)
    if previous is None:
        return None
    for reader in window.later(owner):
        possible = window.between(previous, reader)
        if possible is None:
            return None
        missing = own.sets & ~reader.value
        extra = own.clears & reader.value
        for effect in (operation(hit.ip) for hit in possible if hit != owner):
            if not effect.sets | effect.clears:
                return None  # somebody stores what cannot be told
            missing &= ~effect.clears
            extra &= ~effect.sets
        if missing | extra:
            return Undone(owner, reader, missing | extra)
    return None


def _count(hit: Hit) -> int:
    return hit.before
