"""timer_race: races of kernel timers, by class and callback, from what the probe of that name sees."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import Cases, Rule, Violation, facts, word
from agent.detectors._race_verdict import Judgement, judge
from agent.model import Event, Finding, State
from agent.narrow import part

NAME = "timer_race"
KINDS = frozenset({"timer.race"})

# A fault that the kernel itself confirmed is one at its first occurrence. A suspicion that keeps coming is worth a look: three
# in ten minutes. Nothing here is critical: a race harms when it strikes, and what it breaks then has findings of its own.
DEGRADED_COUNT, WINDOW_S = 3, 600.0
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.timer_race]`."""

    quiet_s: Annotated[float, Ge(1), Le(86400)] = 3600.0
    """Seconds without a race of that class and callback that end a finding."""


class TimerRace:
    """`ports.Detector`."""

    name = NAME

    def __init__(self, options: Options) -> None:
        """Start without an opinion."""
        self.cases = Cases(NAME, Rule(DEGRADED_COUNT, WINDOW_S, NEVER, DEGRADED_COUNT, NEVER, options.quiet_s))

    def see(self, event: Event) -> Iterable[Finding]:
        """Count one race; benign ones are none."""
        judged = judge(event.data) if event.kind in KINDS else None
        if judged is None or judged.verdict == "benign":
            return ()
        return self.cases.add(event, self._violation(event, judged))

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """End what is quiet."""
        return self.cases.tick(now_ns)

    def _violation(self, event: Event, judged: Judgement) -> Violation:
        callback = word(event.data, "callback", event.subject)
        certain = judged.verdict == "fault" and event.data.get("confirmed") == "kernel"
        least: State = "degraded" if certain else "ok"
        actor = word(part(event.data, "actor"), "symbol", "somebody")
        transition = word(event.data, "transition", "").replace("_", " ")
        data = facts(event, "callback", "kind", "timer", "confirmed", "transition", "distance_us", "value")
        data |= {"class": judged.fault, "verdict": judged.verdict, "actor": actor}
        return Violation(f"{judged.fault} {callback}", 1.0, f"{judged.fault} {callback}: {transition} by {actor}", least, data)


def make(options: Options) -> TimerRace:
    """Make the detector."""
    return TimerRace(options)
