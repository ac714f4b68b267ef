"""lost_update: when deficits become a finding."""

from __future__ import annotations

from agent.detectors.lost_update import Options, make
from agent.model import Event
from tests.detectors.replay import event, replay, states


def lost(second: float, kind: str = "race.lost_update", **data: object) -> Event:
    """Give an event of a counter."""
    facts = {"callback": "driver_tick [driver]", "expected": 3200, "growth": 3100, "deficit": 100, "windows": 7, "step": 16}
    return event(second, kind, "driver_frames", **(facts | data))


def test_a_deficit_that_comes_again_is_a_finding() -> None:
    """Pins two events in ten minutes as a finding, with its evidence and numbers, and its end after a quiet hour."""
    found = replay(make(Options()), [lost(1), lost(11)], until=4000)
    assert states(found) == [("driver_frames", "degraded"), ("driver_frames", "ok")]
    assert found[0].summary == "driver_frames lost at least 100 of 3200 that driver_tick [driver] added, in 7 windows"
    assert len(found[0].evidence) == 2
    assert found[0].data["class"] == "F6"
    assert (found[0].data["expected"], found[0].data["growth"], found[0].data["deficit"]) == (3200, 3100, 100)


def test_one_event_is_none_and_neither_is_what_is_inconclusive() -> None:
    """Pins that nothing is concluded from a single event, from inconclusive ones, or from one without a deficit."""
    assert replay(make(Options()), [lost(1)], until=4000) == []
    assert replay(make(Options()), [lost(second, "race.inconclusive") for second in range(9)], until=4000) == []
    assert replay(make(Options()), [lost(second, deficit=0) for second in range(9)], until=4000) == []
