"""timer_late: kernel timers that fire late, run too long or are re-armed in the past, by callback function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import CaseDetector, Rule, Violation, facts, number, ratio, word
from agent.model import Event

NAME = "timer_late"
KINDS = frozenset({"timer.late", "timer.overlong", "timer.storm"})

# One late timer is a busy moment, a paused virtual machine; three in a minute are a fault. Critical: three of ten times the
# budget (100 ms: three frames are gone), or five minutes without a quiet one. A re-arm storm is a fault at once, since the
# kernel side has counted a thousand starts for it.
DEGRADED_COUNT, WINDOW_S = 3, 60.0
SEVERE_RATIO, SEVERE_COUNT = 10.0, 3
SUSTAINED_S = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.timer_late]`."""

    hrtimer_budget_us: Annotated[int, Ge(100), Le(60_000_000)] = 10_000
    """Smaller latenesses of hrtimers do not count, even if the probe sends them; in microseconds."""
    quiet_s: Annotated[float, Ge(1), Le(86400)] = 60.0
    """Seconds without a violation that end a finding."""


def _judge(event: Event, budget: float) -> Violation | None:
    data = event.data
    function = word(data, "function", event.subject)
    kept = facts(event, "function", "kind", "timer", "late_us", "run_us", "starts", "budget_us", "cpu", "comm")
    if event.kind == "timer.storm":
        starts, window = number(data, "starts"), number(data, "window_ms")
        summary = f"{function} was re-armed in the past {starts:.0f} times in {window:g} ms"
        return Violation(function, 1.0, summary, "degraded", kept)
    if event.kind == "timer.overlong":
        summary = f"{function} held CPU {word(data, 'cpu', '?')} for {number(data, 'run_us') / 1000:.1f} ms"
        return Violation(function, ratio(data, "run_us"), summary, data=kept)
    budget = budget if word(data, "kind", "").startswith("hrtimer") else 0.0
    if number(data, "late_us") < budget:
        return None
    summary = f"{word(data, 'kind', 'timer')} {function} fired {number(data, 'late_us') / 1000:.1f} ms late"
    return Violation(function, ratio(data, "late_us", budget), summary, data=kept)


def make(options: Options) -> CaseDetector:
    """Make the detector."""
    rule = Rule(DEGRADED_COUNT, WINDOW_S, SEVERE_RATIO, SEVERE_COUNT, SUSTAINED_S, options.quiet_s)
    return CaseDetector(NAME, KINDS, rule, partial(_judge, budget=options.hrtimer_budget_us))
