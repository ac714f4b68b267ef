"""sched_latency: tasks that wait too long for a CPU, or are blocked too long, by process name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import CaseDetector, Rule, Violation, facts, number, ratio, word
from agent.model import Event

NAME = "sched_latency"
KINDS = frozenset({"sched.latency", "sched.blocked"})

# One long wait is a burst of work; five in a minute are a shortage of CPU. A blocked task is a fault at once: the limit is
# seconds. Critical: three waits of ten times the budget, or five minutes without a quiet one.
DEGRADED_COUNT, WINDOW_S = 5, 60.0
SEVERE_RATIO, SEVERE_COUNT = 10.0, 3
SUSTAINED_S = 300.0


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.sched_latency]`."""

    quiet_s: Annotated[float, Ge(1), Le(86400)] = 60.0
    """Seconds without a violation that end a finding."""


def _judge(event: Event) -> Violation:
    data = event.data
    comm = word(data, "comm", event.subject)
    if event.kind == "sched.blocked":
        been = "has been" if data.get("waker_pid", 0) is None else "was"
        summary = f"{comm} {been} blocked for {number(data, 'blocked_us') / 1e6:.1f} s"
        kept = facts(event, "pid", "tgid", "comm", "blocked_us", "budget_us", "cpu")
        return Violation(comm, ratio(data, "blocked_us"), summary, "degraded", kept)
    summary = f"{comm} waited {number(data, 'wait_us') / 1000:.1f} ms for CPU {word(data, 'cpu', '?')}"
    rival = word(data, "running_comm", "")
    kept = facts(event, "pid", "tgid", "comm", "wait_us", "budget_us", "cpu", "running_pid", "running_comm")
    return Violation(comm, ratio(data, "wait_us"), summary + (f", which ran {rival}" if rival else ""), data=kept)


def make(options: Options) -> CaseDetector:
    """Make the detector."""
    rule = Rule(DEGRADED_COUNT, WINDOW_S, SEVERE_RATIO, SEVERE_COUNT, SUSTAINED_S, options.quiet_s)
    return CaseDetector(NAME, KINDS, rule, _judge)
