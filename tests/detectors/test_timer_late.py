"""timer_late on replayed events."""

from __future__ import annotations

from agent.detectors import timer_late
from agent.model import Event
from tests.detectors.replay import event, replay, states


def late(second: float, late_us: float = 20_000, kind: str = "hrtimer", function: str = "tick_sched_timer") -> Event:
    """One late expiry with the probe's default budget."""
    return event(
        second,
        "timer.late",
        function,
        function=function,
        kind=kind,
        late_us=late_us,
        budget_us=10_000,
        cpu=1,
        comm="kworker",
        stack=["f"],
    )


def test_a_fault_is_told_once_and_ends() -> None:
    """Three late expiries in a minute are degraded, a hundred more change nothing, a quiet minute ends it."""
    detector = timer_late.make(timer_late.Options())
    found = replay(detector, [late(second) for second in range(100)], until=300)
    assert states(found) == [("tick_sched_timer", "degraded"), ("tick_sched_timer", "ok")]
    assert found[0].evidence == (1, 1001, 2001)
    assert found[0].summary == "hrtimer tick_sched_timer fired 20.0 ms late"
    assert found[0].data["late_us"] == 20_000
    assert "stack" not in found[0].data
    assert found[1].summary == "quiet for 60 s after 100 violations"
    assert len(found[1].evidence) == 16
    assert 159 <= found[1].t_mono_ns / 1e9 <= 170


def test_one_late_timer_is_no_fault() -> None:
    """Neither one expiry, however late, nor one each 40 s for an hour."""
    detector = timer_late.make(timer_late.Options())
    assert replay(detector, [late(0, 5_000_000)], until=100) == []
    assert replay(detector, [late(second) for second in range(200, 3800, 40)]) == []


def test_ten_times_the_budget_is_critical() -> None:
    """The third expiry of ten times the budget within a minute turns the finding critical, which is told."""
    found = replay(timer_late.make(timer_late.Options()), [late(0), late(1), late(2), *(late(s, 100_000) for s in (3, 4, 5))])
    assert states(found) == [("tick_sched_timer", "degraded"), ("tick_sched_timer", "critical")]
    assert found[1].data["ratio"] == 10


def test_lasting_lateness_is_critical() -> None:
    """Five minutes without a quiet one are critical, a state that then stays until the end."""
    found = replay(timer_late.make(timer_late.Options()), [late(second) for second in range(0, 900, 20)], until=1000)
    assert [state for _, state in states(found)] == ["degraded", "critical", "ok"]
    assert found[1].t_mono_ns == 340 * 10**9


def test_the_budget_of_hrtimers_is_an_option() -> None:
    """A larger budget than the probe's holds for hrtimers alone; a wheel timer keeps the probe's."""
    detector = timer_late.make(timer_late.Options(hrtimer_budget_us=50_000))
    assert replay(detector, [late(second) for second in range(9)]) == []
    found = replay(detector, [late(second, kind="timer", function="wheel") for second in range(9)])
    assert states(found) == [("wheel", "degraded")]


def test_storms_and_long_callbacks() -> None:
    """A re-arm storm is a fault at once; a callback that runs too long at the third time."""
    detector = timer_late.make(timer_late.Options())
    storm = event(1, "timer.storm", "f", function="f", kind="timer", starts=1000, budget=1000, window_ms=100)
    assert [finding.summary for finding in detector.see(storm)] == ["f was re-armed in the past 1000 times in 100 ms"]
    runs = [
        event(s, "timer.overlong", "g", function="g", kind="timer", run_us=12_000, budget_us=10_000, cpu=0) for s in (2, 3, 4)
    ]
    assert [finding.summary for finding in replay(detector, runs)] == ["g held CPU 0 for 12.0 ms"]


def test_ten_thousand_subjects_stay_bounded() -> None:
    """A storm over ever new callbacks: 256 cases and `other`, no more findings than twice that, and all of them end."""
    detector = timer_late.make(timer_late.Options())
    events = [late(index / 1000, function=f"f{index // 3}") for index in range(10_000)]
    found = replay(detector, events)
    assert len(detector.cases) == 257
    assert ("other", "degraded") in states(found)
    assert len(found) <= 2 * 257
    ended = list(detector.tick(10**12))
    assert len([finding for finding in found if finding.state == "degraded"]) == len(ended)
    assert len(detector.cases) == 0


def test_storm_on_one_subject_is_two_findings() -> None:
    """Ten thousand events of one callback in ten seconds are one degraded and one critical finding."""
    found = replay(timer_late.make(timer_late.Options()), [late(index / 1000, 200_000) for index in range(10_000)])
    assert [state for _, state in states(found)] == ["critical"]
