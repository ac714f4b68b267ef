"""Margins: what was left of the deadline at each beat, and the one in a hundred that was left least, over the last day."""

from __future__ import annotations

from collections import Counter

from agent.histogram import bucket, upper_edge

HALF_NS = 12 * 3600 * 1_000_000_000
WORST = 0.01


class Margins:
    """Counts by bucket, in two halves of a day: the older one is dropped when the newer is full."""

    def __init__(self) -> None:
        """Start empty."""
        self._older: Counter[int] = Counter()
        self._newer: Counter[int] = Counter()
        self._since_ns: int | None = None

    def add(self, margin_s: float, now_ns: int) -> None:
        """Count one margin; a negative one counts as none at all."""
        if self._since_ns is None:
            self._since_ns = now_ns
        if now_ns - self._since_ns >= HALF_NS:
            fresh = now_ns - self._since_ns < 2 * HALF_NS
            self._older, self._newer, self._since_ns = self._newer if fresh else Counter(), Counter(), now_ns
        self._newer[bucket(max(0, round(margin_s * 1e9)))] += 1

    def counts(self) -> Counter[int]:
        """Give how many there were in each bucket (`agent.histogram`)."""
        return self._older + self._newer

    def worst_s(self) -> float | None:
        """Give the margin that 99 of 100 beats had at least (lower edge of its bucket); None without a beat."""
        counts = self.counts()
        rank, seen = WORST * counts.total(), 0
        for index in sorted(counts):
            seen += counts[index]
            if seen >= rank:
                return round((upper_edge(index - 1) + 1) / 1e9, 3) if index else 0.0
        return None
