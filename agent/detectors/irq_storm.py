"""irq_storm: interrupt lines that storm, that nobody handles, or whose handler is slow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import CaseDetector, Rule, Violation, facts, number, ratio, word
from agent.model import Event

NAME = "irq_storm"
KINDS = frozenset({"irq.storm", "irq.spurious", "irq.slow"})

# Storms and unhandled interrupts are counted in windows by the kernel side: each such event is a fault at once; a slow handler
# is one at the third time. Critical: a minute without a quiet one (the kernel switches a line off after 99,900 unhandled of
# 100,000: kernel/irq/spurious.c), or three handler runs of ten times the budget.
DEGRADED_COUNT, WINDOW_S = 3, 60.0
SEVERE_RATIO, SEVERE_COUNT = 10.0, 3
SUSTAINED_S = 60.0

_SUMMARY = {"irq.storm": "interrupts", "irq.spurious": "interrupts that nobody handled"}


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.irq_storm]`."""

    quiet_s: Annotated[float, Ge(1), Le(86400)] = 30.0
    """Seconds without a violation that end a finding."""


def _judge(event: Event) -> Violation:
    data = event.data
    line = word(data, "line", event.subject)
    label = f"line {line} ({word(data, 'name', '?')})"
    kept = facts(event, "line", "name", "count", "spurious", "window_ms", "run_us", "budget_us", "cpu")
    if event.kind == "irq.slow":
        summary = f"the handler of {label} ran for {number(data, 'run_us') / 1000:.1f} ms"
        return Violation(line, ratio(data, "run_us"), summary, data=kept)
    count = number(data, "spurious" if "spurious" in data else "count")
    summary = f"{label}: {count:.0f} {_SUMMARY[event.kind]} in {number(data, 'window_ms'):g} ms"
    return Violation(line, 1.0, summary, "degraded", kept)


def make(options: Options) -> CaseDetector:
    """Make the detector."""
    rule = Rule(DEGRADED_COUNT, WINDOW_S, SEVERE_RATIO, SEVERE_COUNT, SUSTAINED_S, options.quiet_s)
    return CaseDetector(NAME, KINDS, rule, _judge)
