"""Flag words: a bit that a write had just set (or cleared) is gone, and nobody who may change it wrote meanwhile.

Growth proves nothing there. A write that sets bits is over when it traps; at the next read of the word by a later write the
bits must be there, unless a writer that clears them was at work. Which ones could have been: a write may be done long before
its trap is served, so all hits count as possible ones from the previous hit on the setter's CPU to the next hit of each CPU
after the read. If none of those clears the bits, a writer that does not own them has undone them: it stored a word that it had
read before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from agent.collider.hits import Hit
from agent.collider.instruction import Operation

AHEAD = 4  # later reads that are looked at


@dataclass(frozen=True, slots=True)
class Undone:
    """`bits` that the write `owner` made, undone when `found` read the word; `culprit` wrote in between."""

    owner: Hit
    culprit: Hit
    found: Hit
    bits: int


def undone(hits: Sequence[Hit], operation: Callable[[int], Operation]) -> list[Undone]:
    """Find undone bits in one window in which every write was trapped; `hits` are in order of time."""
    found: list[Undone] = []
    for index, hit in enumerate(hits):
        own = operation(hit.ip)
        if not (own.sets or own.clears):
            continue
        begin = _previous(hits, index)
        if begin is None:
            continue  # what was under way when the window opened is not known
        case = _looked_at(hits, index, begin, operation)
        if case is not None:
            found.append(case)
    return found


def _looked_at(hits: Sequence[Hit], index: int, begin: int, operation: Callable[[int], Operation]) -> Undone | None:
    owner = hits[index]
    own = operation(owner.ip)
    for at in range(index + 1, min(index + 1 + AHEAD, len(hits))):
        after = _next_of_each(hits, at)
        if after is None:
            return None
        possible = [*hits[begin + 1 : index], *hits[index + 1 : at + 1], *after]
        effects = [operation(hit.ip) for hit in possible]
        if not all(effect.sets or effect.clears for effect in effects):
            return None  # somebody stores what cannot be told
        missing = own.sets & ~hits[at].value & ~_all(effect.clears for effect in effects)
        extra = own.clears & hits[at].value & ~_all(effect.sets for effect in effects)
        if missing | extra:
            return Undone(owner, hits[index + 1], hits[at], missing | extra)
    return None


def _all(masks: Iterable[int]) -> int:
    return reduce(or_, masks, 0)


def _previous(hits: Sequence[Hit], index: int) -> int | None:
    """Give the index of the hit before, on the same CPU."""
    return next((at for at in range(index - 1, -1, -1) if hits[at].cpu == hits[index].cpu), None)


def _next_of_each(hits: Sequence[Hit], at: int) -> list[Hit] | None:
    """Give the next hit of every other CPU that writes in this window, None if one of them writes no more."""
    wanted = {hit.cpu for hit in hits} - {hits[at].cpu}
    found: dict[int, Hit] = {}
    for hit in hits[at + 1 :]:
        if hit.cpu in wanted and hit.cpu not in found:
            found[hit.cpu] = hit
            if len(found) == len(wanted):
                return list(found.values())
    return None if wanted else []
