"""feed_missed: the watchdogs are not fed, as required work is silent; a snapshot is worth more before the reset than after."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from agent.detectors._cases import facts, number, word
from agent.model import Event, Finding, State

NAME = "feed_missed"
KINDS = frozenset({"watchdog.missed", "watchdog.recovered", "watchdog.pretimeout"})


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.feed_missed]`: how long is too long follows from the watchdogs' own time-outs."""


class FeedMissed:
    """`ports.Detector`: a finding from the first half of a time-out without a feed, and from a pretimeout, to the next feed."""

    name = NAME

    def __init__(self) -> None:
        """Start without an opinion."""
        self._open: dict[str, tuple[int, ...]] = {}

    def see(self, event: Event) -> Iterable[Finding]:
        """Take one event in; the next feed ends whatever is open."""
        if event.kind == "watchdog.recovered":
            ended = [self._finding(event, subject, "fed again", seen) for subject, seen in self._open.items()]
            self._open.clear()
            return ended
        if event.kind not in KINDS:
            return ()
        known = self._open.get(event.subject)
        self._open[event.subject] = (*(known or ()), event.seq)[-16:]
        if known is not None:  # a finding is raised once
            return ()
        left = f"the machine is reset in {number(event.data, 'left_s'):.0f} s"
        return (self._finding(event, event.subject, f"{_why(event)}; {left}", self._open[event.subject]),)

    def tick(self, now_ns: int) -> Iterable[Finding]:  # noqa: ARG002 - events alone begin and end it
        """Do nothing."""
        return ()

    def _finding(self, event: Event, subject: str, summary: str, evidence: tuple[int, ...]) -> Finding:
        state: State = "ok" if event.kind == "watchdog.recovered" else "critical"
        return Finding(event.t_mono_ns, NAME, subject, state, summary, evidence, facts(event, "missing", "left_s", "evidence"))


def _why(event: Event) -> str:
    if event.kind == "watchdog.pretimeout":
        return f"pretimeout, kept by {word(event.data, 'evidence', 'nothing')}"
    missing = event.data.get("missing")
    return f"no feed: {', '.join(map(str, missing)) if isinstance(missing, list) else 'somebody'} did not report"


def make(_options: Options) -> FeedMissed:
    """Make the detector."""
    return FeedMissed()
