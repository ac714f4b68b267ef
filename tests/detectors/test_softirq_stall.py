"""softirq_stall on replayed events."""

from __future__ import annotations

from agent.detectors import softirq_stall
from tests.detectors.replay import event, replay, states


def test_stalls_are_told_once_and_end() -> None:
    """Three stalls of a vector in a minute, on whatever CPU, are one finding that a quiet minute ends."""
    stalls = [
        event(s, "softirq.stall", "NET_RX", vector="NET_RX", cpu=s % 2, latency_us=25_000, budget_us=20_000) for s in range(30)
    ]
    found = replay(softirq_stall.make(softirq_stall.Options()), stalls, until=200)
    assert states(found) == [("NET_RX", "degraded"), ("NET_RX", "ok")]
    assert found[0].summary == "softirq NET_RX waited 25.0 ms on CPU 0"


def test_long_runs() -> None:
    """A softirq that holds its CPU for ten times the budget, three times, is critical."""
    runs = [event(s, "softirq.overlong", "TIMER", vector="TIMER", cpu=1, run_us=200_000, budget_us=20_000) for s in range(3)]
    found = replay(softirq_stall.make(softirq_stall.Options()), runs)
    assert states(found) == [("TIMER", "critical")]
    assert found[0].summary == "softirq TIMER ran 200.0 ms on CPU 1"


def test_storm_is_bounded() -> None:
    """Ten thousand stalls of ten vectors in ten seconds: one finding each."""
    stalls = [event(i / 1000, "softirq.stall", vector=str(i % 10), latency_us=21_000, budget_us=20_000) for i in range(10_000)]
    assert len(replay(softirq_stall.make(softirq_stall.Options()), stalls)) == 10
