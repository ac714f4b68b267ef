"""irq_storm on replayed events."""

from __future__ import annotations

from agent.detectors import irq_storm
from tests.detectors.replay import event, replay, states


def test_a_storm_is_told_once_turns_critical_and_ends() -> None:
    """One window of a storm is degraded, a minute of them critical, half a minute of silence the end."""
    storm = [
        event(s, "irq.storm", "24 eth0", line=24, name="eth0", count=20_000, budget=20_000, window_ms=100) for s in range(100)
    ]
    found = replay(irq_storm.make(irq_storm.Options()), storm, until=200)
    assert states(found) == [("24", "degraded"), ("24", "critical"), ("24", "ok")]
    assert found[0].summary == "line 24 (eth0): 20000 interrupts in 100 ms"
    assert found[1].t_mono_ns == 60 * 10**9


def test_unhandled_interrupts() -> None:
    """The summary counts those that nobody handled."""
    spurious = event(1, "irq.spurious", "9 acpi", line=9, name="acpi", count=40, spurious=38, window_ms=100)
    found = replay(irq_storm.make(irq_storm.Options()), [spurious])
    assert [finding.summary for finding in found] == ["line 9 (acpi): 38 interrupts that nobody handled in 100 ms"]


def test_a_slow_handler_counts_three_times() -> None:
    """Two slow runs are none, the third is a fault; ten times the budget three times is critical."""
    slow = [event(s, "irq.slow", "5 spi", line=5, name="spi", run_us=15_000, budget_us=10_000) for s in range(3)]
    detector = irq_storm.make(irq_storm.Options())
    assert replay(detector, slow[:2]) == []
    assert states(replay(detector, slow[2:])) == [("5", "degraded")]
    slower = [event(s, "irq.slow", "6 spi", line=6, name="spi", run_us=150_000, budget_us=10_000) for s in range(3)]
    assert states(replay(detector, slower)) == [("6", "critical")]


def test_storm_of_events_is_bounded() -> None:
    """Ten thousand storms of ever new lines: at most 256 cases and `other`."""
    detector = irq_storm.make(irq_storm.Options())
    found = replay(detector, [event(i / 1000, "irq.storm", line=i, name="x", count=1, window_ms=100) for i in range(10_000)])
    assert len(detector.cases) == len(found) == 257
