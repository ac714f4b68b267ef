"""How long to watch, how much, how often: windows with a hard budget, rests between them, and an end for what is too hot.

A trap costs some microseconds on real hardware, and tens in a virtual machine. No CPU traps more than `WINDOW_HITS` times in a
window (the kernel disarms), and after each window comes a rest that keeps the traps, at `TRAP_NS` each, below `SHARE` of the
time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent.collider.case import Case
from agent.collider.hits import Hit
from agent.ports import Clock, Trapped, Watchpoints

TASTE_S, TASTE_HITS = 0.05, 200
WINDOW_S, WINDOW_HITS = 0.5, 2000
TRAP_NS, SHARE = 20_000, 0.1
REST_S = 0.02
HOT_PER_S = 100_000  # by the growth of the value while nothing is armed
HOT_TRAPS_PER_S = 20_000  # while armed, when each write is slowed down by its trap
SUSTAINED = 3  # windows in a row: a timer's callback that writes 200 times in a burst and then rests is not hot
SECOND_NS = 1e9


class Inquiry:
    """Watches cases. Owns nothing."""

    def __init__(self, watch: Watchpoints, clock: Clock, pause: Callable[[float], None]) -> None:
        self._watch = watch
        self._clock = clock
        self._pause = pause

    def run(self, cases: Sequence[Case], seconds: float) -> None:
        """Watch up to four cases at the same time for `seconds` in all. Raises a ProbeError."""
        deadline = self._clock.mono_ns() + round(seconds * SECOND_NS)
        for _ in range(SUSTAINED):
            self.window(cases, TASTE_S, TASTE_HITS)
            if not any(case.heated for case in cases):
                break
        while (left := (deadline - self._clock.mono_ns()) / SECOND_NS) > 0:
            cool = [case for case in cases if not case.hot]
            if not cool:
                return
            self.window(cool, min(WINDOW_S, max(left, REST_S)), WINDOW_HITS // len(cool))

    def window(self, cases: Sequence[Case], seconds: float, limit: int) -> Trapped:
        """Watch the cases for one window, and rest."""
        trapped = self._watch.window([case.spot for case in cases], seconds, limit)
        for slot, case in enumerate(cases):
            found = case.take(trapped, slot)
            rate = _rate(found, trapped.begun_ns) if trapped.seen[slot] >= limit else 0.0
            case.heated = case.heated + 1 if rate > HOT_TRAPS_PER_S else 0
            if case.heated >= SUSTAINED:
                case.hot = rate
            narrow = case.narrowed(found)
            if narrow is not None:
                case.watched = replace(case.watched, spot=narrow, guessed=False)
        self._rest(cases, sum(trapped.seen) * TRAP_NS / SECOND_NS / SHARE - (trapped.ended_ns - trapped.begun_ns) / SECOND_NS)
        return trapped

    def _rest(self, cases: Sequence[Case], seconds: float) -> None:
        """Rest at least `REST_S`, and see how fast each counter really grows."""
        begun = self._clock.mono_ns()
        before = [self._value(case) for case in cases]
        self._pause(max(REST_S, seconds))
        after = [self._value(case) for case in cases]
        elapsed = (self._clock.mono_ns() - begun) / SECOND_NS
        for case, old, new in zip(cases, before, after, strict=True):
            if case.step is None:
                continue
            grown = ((new - old) * (1 if case.step > 0 else -1)) % (1 << 8 * case.spot.length)
            if grown >> 8 * case.spot.length - 1 == 0 and (rate := grown / abs(case.step) / elapsed) > HOT_PER_S:
                case.hot = rate

    def _value(self, case: Case) -> int:
        return int.from_bytes(self._watch.peek(case.spot.address, case.spot.length), "little")


def _rate(found: Sequence[Hit], begun_ns: int) -> float:
    span = found[-1].t_ns - begun_ns if found else 0
    return len(found) * SECOND_NS / span if span > 0 else 0.0
