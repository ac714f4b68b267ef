"""The one timer for whoever has a time of its own."""

from __future__ import annotations

import time

from agent.linux.alarm import SOONEST_S, Alarm
from agent.linux.clock import SystemClock
from agent.linux.loop import EpollLoop

MS = 1_000_000


def failed(name: str, error: Exception) -> None:
    """Fail the test."""
    raise AssertionError(f"{name}: {error}")


def test_it_rings_at_the_earliest_time_that_was_set() -> None:
    """Pins that an earlier time is followed, and that a later one, or none, leaves it as it is: it then comes early."""
    loop, clock, rung = EpollLoop(failed), SystemClock(), list[float]()
    begun = clock.mono_ns()

    def ring() -> None:
        rung.append((clock.mono_ns() - begun) / MS)
        loop.stop()

    alarm = Alarm(loop, clock, ring, "test")
    for due_ms in (5000, 100, 3000):
        alarm.set(begun + due_ms * MS)
    alarm.set(None)
    loop.run()
    loop.close()
    assert len(rung) == 1
    assert 100 <= rung[0] < 2000


def test_what_is_always_overdue_does_not_spin_the_loop() -> None:
    """Pins the shortest time between two alarms."""
    loop, clock, rung = EpollLoop(failed), SystemClock(), list[float]()

    def ring() -> None:
        rung.append(time.monotonic())
        alarm.set(0)
        if len(rung) == 5:
            loop.stop()

    alarm = Alarm(loop, clock, ring, "test")
    alarm.set(0)
    loop.run()
    loop.close()
    assert rung[-1] - rung[0] >= 4 * SOONEST_S * 0.9
