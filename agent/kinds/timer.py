"""Kernel timers: `timer.late`, `timer.overlong`, `timer.storm`, `timer.race`. Subject: the callback function."""

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


class RaceSide(TypedDict):
    """Who did it, or what was going on: where, in which context, and from where in the kernel."""

    t_ns: int
    """CLOCK_MONOTONIC."""
    cpu: int
    pid: int
    comm: str
    context: Literal["task", "softirq", "hardirq"]
    symbol: str
    """The caller of the timer interface, with its offset."""
    stack: list[str]


class Race(TypedDict):
    """Something happened to a timer in a state in which it should not; the same again within a second is only counted."""

    transition: str
    """What, in which state: `start_running`, `init_armed`, … (docs/races.md)."""
    callback: str
    kind: Literal["timer", "hrtimer", "hrtimer_soft"]
    timer: str
    confirmed: Literal["kernel", "state", "guess"]
    """By the kernel's own fields, by our record of entry and exit, or with a guess at the length of what was freed."""
    count: int
    by_kernel: int
    """How many of `count` the kernel's own fields confirm."""
    value: int
    """The largest: ns late, run, or since it was armed; periods missed; starts."""
    distance_us: float
    """From `other` to `actor`."""
    actor: RaceSide
    other: RaceSide


KINDS: dict[str, type] = {"timer.late": Late, "timer.overlong": Overlong, "timer.storm": Storm, "timer.race": Race}
