"""How long a lease to ask for: by the intervals between renewals, within the bounds that HELLO agreed on. Pure.

Mean and deviation by the weights of TCP's RTO (RFC 6298: 1/8, 1/4, k = 4); the ttl holds two such intervals, so that a renewal
that is lost on the way costs nothing. It widens at once and narrows slowly: a burst of quick renewals promises nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

ALPHA, BETA, K = 1 / 8, 1 / 4, 4
INTERVALS = 2
NARROW = 1 / 16  # of the difference, at each renewal


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the ttl stays within, in milliseconds."""

    min_ms: int
    max_ms: int

    def clamp(self, ms: float) -> int:
        """Give the nearest allowed ttl."""
        return round(min(max(ms, self.min_ms), self.max_ms))


class AdaptiveTtl:
    """Starts at the upper bound. `bounds` may change at each HELLO."""

    def __init__(self, bounds: Bounds) -> None:
        """Know nothing yet."""
        self.bounds = bounds
        self._mean: float | None = None
        self._deviation = 0.0
        self._ms = float(bounds.max_ms)

    @property
    def ms(self) -> int:
        """What to ask for now."""
        return self.bounds.clamp(self._ms)

    def learn(self, interval_ms: float) -> None:
        """Take in one interval between two renewals of a healthy gateway; one of no use (not positive) is left out."""
        if interval_ms <= 0:
            return
        if self._mean is None:
            self._mean, self._deviation = interval_ms, interval_ms / 2
        else:
            self._deviation += BETA * (abs(interval_ms - self._mean) - self._deviation)
            self._mean += ALPHA * (interval_ms - self._mean)
        wanted = INTERVALS * (max(self._mean, interval_ms) + K * self._deviation)
        self._ms = wanted if wanted > self._ms else self._ms + NARROW * (wanted - self._ms)
