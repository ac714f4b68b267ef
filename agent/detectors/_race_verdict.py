"""From what the kernel saw to a class and a verdict: fault, suspect or benign, with the reason.

What the kernel sends is a transition with both sides. It is told to the rules as the events that it consists of, so that
live and replayed races are judged by one table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from agent.detectors._race_allowed import allowed
from agent.detectors._race_rules import Limits, Step, replay
from agent.model import Data
from agent.narrow import count, part

Verdict: TypeAlias = Literal["fault", "suspect", "benign"]
_WORK, _LIMITS = 1, Limits(late_ns=0, run_ns=0, stuck_ns=0, past_starts=1)
_T = 1  # any timer: one object per report

# What the rules are told, given the two sides: (event, side). `a` is the actor's, `o` the other's; the kernel has compared
# times and counts with the probe's limits already, so limits are nought here.
_TOLD: dict[str, tuple[tuple[str, str], ...]] = {
    "init_armed": (("start", "o"), ("init", "a")),
    "init_running": (("entry", "o"), ("init", "a")),
    "start_running": (("entry", "o"), ("start", "a")),
    "delete_running": (("entry", "o"), ("delete", "a")),
    "free_armed": (("start", "o"), ("free", "a")),
    "free_running": (("entry", "o"), ("free", "a")),
    "start_freed": (("start", "o"), ("cancel", "o"), ("free", "o"), ("start", "a")),
    "late": (("start", "o"), ("entry", "a")),
    "overlong": (("entry", "o"), ("exit", "a")),
    "periods_missed": (("start", "o"), ("entry", "a")),
    "stuck": (("start", "o"), ("tick", "a")),
    "storm": (("start_past", "a"),),
    "rearmed_expired": (("stop", "o"), ("rearm", "a"), ("entry", "a")),
    "rearmed_freed": (("stop", "o"), ("rearm", "a"), ("free", "a")),
    "cross_cancel": (("cross", "o"), ("delete_sync", "a")),
}

# What stands for one event, with its value.
_PLAIN = {"free": ("free", 8), "start": ("start", 1), "start_past": ("start", 0), "entry": ("entry", 1), "rearm": ("start", 1)}

# Class (and transition, where they differ) -> the verdict on somebody who is not known to be innocent, and why no worse.
_VERDICTS: dict[str, tuple[Verdict, str]] = {
    "init_running": ("suspect", "a callback may free its own timer, and the memory be in use again before it returns"),
    "start_freed": ("suspect", "the memory may be in use again without an initialisation that can be seen"),
    "rearmed_expired": ("suspect", "whoever stopped it may have wanted the work to go on"),
    "F1": ("fault", ""),
    "F2": ("fault", ""),
    "F3": ("suspect", "harmless if nothing that the callback uses goes away before it ends"),
    "F4": ("fault", ""),
    "F5": ("fault", ""),
    "F7": ("suspect", "a busy or paused machine does this too"),
    "F8": ("fault", ""),
    "F9": ("fault", ""),
    "F10": ("fault", ""),
    "F11": ("fault", ""),
}
_GUESSED = "the length of the freed block is a guess"
_WHEEL = "mod_timer() may run beside the callback, if what they share is locked"
_USER = "a process does it, and can be stopped"
# Their callers wait for the callback, or try again.
_PATIENT = ("hrtimer_cancel", "timer_delete_sync", "del_timer_sync", "timer_shutdown_sync", "__timer_delete_sync")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is held of one report; `reason` is empty for a plain fault."""

    fault: str
    verdict: Verdict
    reason: str


def judge(report: Data) -> Judgement | None:
    """Judge one report of the probe (`timer.race` data); None if the rules see nothing in it."""
    fault = classify(report)
    if fault is None or _waits(report):
        return None
    callback, kind = str(report.get("callback", "")), str(report.get("kind", ""))
    innocent = allowed(callback, fault)
    if innocent:
        return Judgement(fault, "benign", innocent)
    verdict, reason = _VERDICTS.get(str(report.get("transition"))) or _VERDICTS[fault]
    if verdict == "fault" and report.get("confirmed") == "guess":
        return Judgement(fault, "suspect", _GUESSED)
    if fault == "F2" and kind == "timer":
        return Judgement(fault, "suspect", _WHEEL)
    if fault == "F9" and part(report, "actor").get("context") == "task":
        return Judgement(fault, "suspect", _USER)
    return Judgement(fault, verdict, reason)


def classify(report: Data) -> str | None:
    """Give the class that the rules find in the events of a report."""
    steps = list(_steps(str(report.get("transition")), _place(report, "actor"), _place(report, "other")))
    found = replay(steps, _LIMITS)
    return found[-1].fault if found and found[-1].step is steps[-1] else None


def _place(report: Data, name: str) -> tuple[int, int]:
    found = part(report, name)
    return count(found.get("cpu")), count(found.get("pid"))


def _steps(transition: str, actor: tuple[int, int], other: tuple[int, int]) -> list[Step]:
    told = _TOLD.get(transition, ())
    steps: list[Step] = []
    for at, (event, who) in enumerate(told, 1):
        steps += _events(event, 10 * at, actor if who == "a" else other, actor)
    return steps


def _events(event: str, t_ns: int, place: tuple[int, int], actor: tuple[int, int]) -> list[Step]:
    """Give what one entry of `_TOLD` stands for; armed timers have their expiry at once, so that any time is late."""
    cpu, pid = place
    if event == "stop":  # of a timer whose callback queues a work that is running
        loop = [("entry", -1), ("queue", -1), ("exit", -1), ("work_start", actor[1])]
        before = [Step(t_ns - 5 + n, what, _T, -1, who, work=_WORK) for n, (what, who) in enumerate(loop)]
        return [*before, Step(t_ns, "delete_sync", _T, cpu, pid)]
    if event == "cross":  # the other's callback waits for the one in which the actor is
        mine = _T + 1
        entries = [Step(t_ns - 2, "entry", _T, cpu, pid), Step(t_ns - 1, "entry", mine, *actor)]
        return [*entries, Step(t_ns, "delete_sync", mine, cpu, pid)]
    what, value = _PLAIN.get(event, (event, 0))
    return [Step(t_ns, what, _T, cpu, pid, value=value)]


def _waits(report: Data) -> bool:
    """Whether the delete is one of an interface that goes on until the callback is done: that is the remedy, not the fault."""
    stack = part(report, "actor").get("stack")
    lines = stack if isinstance(stack, list) else []
    return report.get("transition") == "delete_running" and any(str(line).split("+")[0] in _PATIENT for line in lines)
