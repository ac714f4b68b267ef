"""Events as the probes send them, and their replay through one detector."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from agent.model import Data, Event, Finding
from agent.ports import Detector

NS = 1_000_000_000


def event(second: float, kind: str, subject: str = "x", /, **data: object) -> Event:
    """Make one event at `second` since boot, its number the millisecond."""
    plain = cast("Data", data)
    return Event("boot", round(second * 1000) + 1, round(second * NS), 0.0, "test", kind, subject, "warning", plain)


def replay(detector: Detector, events: Iterable[Event], *, until: float = 0.0) -> list[Finding]:
    """Feed `events` in order with a tick each 10 s between them and on to `until`; gives all findings in order."""
    found: list[Finding] = []
    clock = 0.0
    for item in [*events, event(until, "end")]:
        while (clock + 10) * NS <= item.t_mono_ns:
            clock += 10
            found.extend(detector.tick(round(clock * NS)))
        if item.kind != "end":
            found.extend(detector.see(item))
    return found


def states(findings: Iterable[Finding]) -> list[tuple[str, str]]:
    """Give `(subject, state)` of each finding."""
    return [(finding.subject, finding.state) for finding in findings]
