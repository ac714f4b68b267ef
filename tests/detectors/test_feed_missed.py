"""feed_missed: open from a missed feed to the next one."""

from __future__ import annotations

from agent.detectors.feed_missed import Options, make
from agent.model import Data, Event, Finding


def event(kind: str, seq: int, subject: str = "feeding", **data: object) -> Event:
    """Give one."""
    given: Data = {key: value for key, value in data.items() if isinstance(value, int | float | str | list)}
    return Event("b", seq, seq * 10**9, 0.0, "agent", kind, subject, "critical", given)


def test_it_is_open_from_the_miss_to_the_next_feed() -> None:
    """Pins who is named, how long is left, and that a pretimeout is a finding of its device, ended by the same feed."""
    detector = make(Options())
    (missed,) = detector.see(event("watchdog.missed", 1, missing=["camera-1"], left_s=30.0))
    assert (missed.subject, missed.state) == ("feeding", "critical")
    assert missed.summary == "no feed: camera-1 did not report; the machine is reset in 30 s"
    (near,) = detector.see(event("watchdog.pretimeout", 2, "watchdog0", evidence="fd", left_s=9.6))
    assert near.summary == "pretimeout, kept by fd; the machine is reset in 10 s"
    ended = list(detector.see(event("watchdog.recovered", 3, missing=["camera-1"])))
    assert [(one.subject, one.state, one.evidence) for one in ended] == [("feeding", "ok", (1,)), ("watchdog0", "ok", (2,))]
    assert list(detector.see(event("watchdog.recovered", 4))) == []


def test_others_do_not_matter() -> None:
    """Pins that no other event and no time change anything, and that data of another form is no fault."""
    detector = make(Options())
    assert list(detector.see(event("proc.exit", 1))) == list(detector.tick(10**12)) == []
    (odd,) = detector.see(event("watchdog.missed", 2, missing="x", left_s="y"))
    assert isinstance(odd, Finding)
