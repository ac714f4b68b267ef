"""Kernel timers: `timer.late`, `timer.overlong`, `timer.storm`. Subject: the callback function."""

from __future__ import annotations

from typing import Literal, TypedDict


class _Timer(TypedDict):
    function: str
    timer: str
    """Address of the timer object, hexadecimal."""
    kind: Literal["timer", "hrtimer", "hrtimer_soft"]
    cpu: int
    pid: int
    """Who was on the CPU; 0 is the idle task."""
    comm: str
    stack: list[str]
    """Kernel stack, innermost first."""


class Late(_Timer):
    """A callback began after its time: hrtimer against its hard expiry, timer_list against its wheel bucket."""

    late_us: float
    budget_us: float


class Overlong(_Timer):
    """A callback held the CPU longer than its budget."""

    run_us: float
    budget_us: float


class Storm(_Timer):
    """One callback was armed with an expiry in the past `starts` times within `window_ms`."""

    starts: int
    budget: int
    window_ms: int


KINDS: dict[str, type] = {"timer.late": Late, "timer.overlong": Overlong, "timer.storm": Storm}
