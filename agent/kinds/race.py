"""Lost updates of counters: `race.lost_update`, `race.inconclusive`. Subject: the counter, as it is configured."""

from __future__ import annotations

from typing import TypedDict


class _Counter(TypedDict):
    symbol: str
    address: str
    """Hexadecimal."""
    length: int
    step: int
    """What each run of a callback adds, at least."""
    callback: str
    """The one whose begin ended the last window."""
    cpu: int
    """Whose windows are summed up: from one moment at which no callback ran to the next that this CPU saw."""
    callbacks: int
    """Runs of callbacks, on all CPUs, in these windows; since the probe was loaded, as are all sums here."""
    alone: int
    """Of these, runs in windows in which none overlapped another."""
    expected: int
    """By how much the counter should have grown."""
    growth: int
    """By how much it did."""
    deficit: int
    """What lacks in windows with overlap: at least so much was lost."""
    windows: int
    """How many had a deficit."""
    alone_deficit: int
    """What lacks in windows without overlap: not lost between these callbacks."""


class LostUpdate(_Counter):
    """Between two moments without a callback a counter grew by less than the callbacks that overlapped there had added."""


class Inconclusive(_Counter):
    """A counter of which nothing can be concluded."""

    reason: str


KINDS: dict[str, type] = {"race.lost_update": LostUpdate, "race.inconclusive": Inconclusive}
