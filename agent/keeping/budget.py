"""How soon a workload that ended is started again: at once within a budget, then ever more slowly, never not at all."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

NS = 1_000_000_000
# Seconds between tries once the budget is spent. The last one goes on for ever: "given up for good" needs a person on site.
BACKOFF_S = (1, 2, 5, 10, 30, 60, 120, 300)


@dataclass(frozen=True, slots=True)
class Wait:
    """Start again after `delay_s` (0: at once); `slow` when the table's last, endless step is reached."""

    delay_s: int = 0
    slow: bool = False


class Budget:
    """At most `burst` immediate restarts in `window_s`; a run of at least `window_s` makes the table begin anew."""

    def __init__(self, burst: int, window_s: float) -> None:
        """Nothing is spent yet."""
        self._starts: deque[int] = deque()
        self._step = 0
        self.change(burst, window_s)

    @property
    def spent(self) -> bool:
        """Whether the last wait came from the table."""
        return self._step > 0

    def change(self, burst: int, window_s: float) -> None:
        """Take other limits; what is spent stays spent."""
        self._burst = burst
        self._window_ns = int(window_s * NS)

    def next(self, ran_ns: int, now_ns: int) -> Wait:
        """Spend one restart after a run of `ran_ns`."""
        if ran_ns >= self._window_ns:
            self._step = 0
        while self._starts and now_ns - self._starts[0] >= self._window_ns:
            self._starts.popleft()
        if not self._step and len(self._starts) < self._burst:
            self._starts.append(now_ns)
            return Wait()
        return self.later()

    def later(self) -> Wait:
        """Give the next wait of the table, for what cannot succeed at once (no such program)."""
        step = min(self._step, len(BACKOFF_S) - 1)
        self._step += 1
        return Wait(BACKOFF_S[step], step == len(BACKOFF_S) - 1)
