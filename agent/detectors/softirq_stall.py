"""softirq_stall: softirqs that wait too long for their turn, or hold a CPU too long, by vector."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import CaseDetector, Rule, Violation, facts, number, ratio, word
from agent.model import Event

NAME = "softirq_stall"
KINDS = frozenset({"softirq.stall", "softirq.overlong"})

# One stall is a burst of packets handed to ksoftirqd; three in a minute starve timers and the network. Critical: three of ten
# times the budget, or five minutes without a quiet one.
DEGRADED_COUNT, WINDOW_S = 3, 60.0
SEVERE_RATIO, SEVERE_COUNT = 10.0, 3
SUSTAINED_S = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.softirq_stall]`."""

    quiet_s: Annotated[float, Ge(1), Le(86400)] = 60.0
    """Seconds without a violation that end a finding."""


def _judge(event: Event) -> Violation:
    data = event.data
    vector = word(data, "vector", event.subject)
    key, verb = ("run_us", "ran") if event.kind == "softirq.overlong" else ("latency_us", "waited")
    summary = f"softirq {vector} {verb} {number(data, key) / 1000:.1f} ms on CPU {word(data, 'cpu', '?')}"
    return Violation(vector, ratio(data, key), summary, data=facts(event, "vector", "cpu", "latency_us", "run_us", "budget_us"))


def make(options: Options) -> CaseDetector:
    """Make the detector."""
    rule = Rule(DEGRADED_COUNT, WINDOW_S, SEVERE_RATIO, SEVERE_COUNT, SUSTAINED_S, options.quiet_s)
    return CaseDetector(NAME, KINDS, rule, _judge)
