"""process_death: workloads that ended, watched processes that failed, OOM victims and core dumps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import CaseDetector, Rule, Violation, facts, number, word
from agent.model import Data, Event, State

NAME = "process_death"
KINDS = frozenset({"proc.exit"})

# How grave one exit is, first row that fits. A workload should not end at all, so that even its code 0 is a finding; a process
# that is only watched by name may end well.
#             what                           state
OOM_KILL: State = "critical"  #              killed for memory
CORE_DUMP: State = "critical"  #             dumped core
WORKLOAD_FAILED: State = "critical"  #       a required workload, by signal or code
WORKLOAD_ENDED: State = "degraded"  #        a workload with code 0, or one that is not required
WATCHED_FAILED: State = "degraded"  #        a watched name, by signal or code

# Critical, too: five deaths of one subject in five minutes (a crash loop).
LOOP_COUNT, WINDOW_S = 5, 300.0
SUSTAINED_S = 900.0


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.process_death]`."""

    quiet_s: Annotated[float, Ge(1), Le(86400)] = 120.0
    """Seconds without another death that end a finding."""


def grave(data: Data) -> State:
    """Give how grave an exit is; ok: none of our business."""
    failed = bool(number(data, "signal") or number(data, "code"))
    if data.get("oom"):
        return OOM_KILL
    if data.get("core"):
        return CORE_DUMP
    if word(data, "workload", ""):
        return WORKLOAD_FAILED if failed and data.get("required", True) else WORKLOAD_ENDED
    return WATCHED_FAILED if failed else "ok"


def _how(data: Data) -> str:
    if data.get("oom"):
        return "was killed for lack of memory"
    if signal := number(data, "signal"):
        return f"was killed by signal {signal:.0f}" + (" and dumped core" if data.get("core") else "")
    return f"ended with code {number(data, 'code'):.0f}"


def _judge(event: Event) -> Violation | None:
    state = grave(event.data)
    if state == "ok":
        return None
    subject = word(event.data, "workload", word(event.data, "comm", event.subject))
    kept = facts(event, "pid", "tgid", "comm", "code", "signal", "core", "oom", "workload")
    return Violation(subject, 1.0, f"{subject} {_how(event.data)}", state, kept)


def make(options: Options) -> CaseDetector:
    """Make the detector."""
    rule = Rule(LOOP_COUNT, WINDOW_S, 0.0, LOOP_COUNT, SUSTAINED_S, options.quiet_s)
    return CaseDetector(NAME, KINDS, rule, _judge)
