"""Conservation: what was written must be there. The arithmetic of one window in which every write was trapped.

    lost >= (writes - border) * step - growth

Counted are only hits whose write is done. When a value is read, every other CPU may have one write done that is not counted
yet: at the first read that makes the growth smaller than the writes counted after it, by one for each of these CPUs. This is
the border; at the last read it makes the growth larger, which hides losses and invents none, as does every write that no trap
saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from agent.collider.hits import Hit


@dataclass(frozen=True, slots=True)
class Balance:
    """`writes` between two reads of the value, its `growth` between them, and at least how many updates were `lost`."""

    writes: int = 0
    growth: int = 0
    lost: int = 0

    def __add__(self, other: Balance) -> Balance:
        """Sum up windows that do not overlap."""
        return Balance(self.writes + other.writes, self.growth + other.growth, self.lost + other.lost)


def balance(hits: Sequence[Hit], step: int, cpus: int, length: int) -> Balance:
    """Weigh hits that all add at least `step` (or all take away at least that, if it is negative) to `length` bytes.

    `hits` are in order of time. A value of 1 or 2 bytes is weighed in pieces so short that it does not come round unseen.
    """
    piece = max(2, (1 << 8 * length - 2) // abs(step))
    total = Balance()
    for begin in range(0, len(hits), piece):
        total += _piece(hits[begin : begin + piece + 1], step, cpus, length)
    return total


def _piece(hits: Sequence[Hit], step: int, cpus: int, length: int) -> Balance:
    quiet = [hit for hit in hits if hit.before == hit.after]
    first, last = (quiet[0], quiet[-1]) if len(quiet) >= 2 else (hits[0], hits[-1])
    writes = last.before - first.after
    if writes <= 0:
        return Balance()
    sign = 1 if step > 0 else -1
    growth = _wrapped(sign * (last.value - first.value), length, writes * abs(step))
    due = max(0, writes - (cpus - 1)) * abs(step)
    return Balance(writes, sign * growth, max(0, due - growth) // abs(step))


def _wrapped(difference: int, length: int, expected: int) -> int:
    """Give the growth that has this remainder and lies nearest to what was expected."""
    period = 1 << 8 * length
    growth = difference % period
    return growth - period if growth - expected > period // 2 else growth


def common_step(hits: Sequence[Hit], delta: Callable[[Hit], int | None]) -> int | None:
    """Give the smallest step if every hit adds, or every hit takes away, a known amount; None if they do not go one way."""
    steps = {delta(hit) for hit in hits}
    if not steps or None in steps:
        return None
    known = [step for step in steps if step is not None]
    if min(known) > 0:
        return min(known)
    return max(known) if max(known) < 0 else None


def borne_out(hits: Sequence[Hit], ip: int, step: int, length: int) -> tuple[int, int]:
    """Give how many values bear out that the writer at `ip` stores what was there plus `step`, and of how many.

    Looked at are hits that no other counted write came before.
    """
    mask = (1 << 8 * length) - 1
    pairs = [
        (later.value - earlier.value) & mask
        for earlier, later in pairwise(hits)
        if later.ip == ip and earlier.before == earlier.after == later.before - 1
    ]
    return pairs.count(step & mask), len(pairs)
