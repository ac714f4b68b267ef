"""The ttl that is asked for: within its bounds always, wide at once, narrow slowly."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.mcu.ttl import AdaptiveTtl, Bounds

BOUNDS = Bounds(5_000, 120_000)


def learned(*intervals_ms: float) -> AdaptiveTtl:
    """Give a ttl after these intervals."""
    ttl = AdaptiveTtl(BOUNDS)
    for interval in intervals_ms:
        ttl.learn(interval)
    return ttl


@given(st.lists(st.floats(-1e6, 1e9, allow_nan=False), max_size=50))
def test_it_stays_within_its_bounds(intervals: list[float]) -> None:
    """Pins the clamp, whatever the intervals were."""
    assert BOUNDS.min_ms <= learned(*intervals).ms <= BOUNDS.max_ms


def test_steady_feeds_narrow_it_slowly() -> None:
    """Pins that it begins at the upper bound and comes down over minutes to two intervals, not to one."""
    assert learned().ms == 120_000
    assert learned(*[10_000] * 5).ms > 90_000
    assert 20_000 <= learned(*[10_000] * 200).ms < 22_000


def test_one_slow_interval_widens_it_at_once() -> None:
    """Pins that a feed that came late finds room the next time."""
    steady = [10_000] * 200
    assert learned(*steady, 25_000).ms > 50_000 > learned(*steady).ms


def test_new_bounds_hold_at_once() -> None:
    """Pins what HELLO may change."""
    ttl = learned(*[10_000] * 200)
    ttl.bounds = Bounds(30_000, 40_000)
    assert ttl.ms == 30_000
