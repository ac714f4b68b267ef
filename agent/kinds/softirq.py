"""Softirqs: `softirq.stall`, `softirq.overlong`. Subject: the vector."""

from __future__ import annotations

from typing import TypedDict


class _Softirq(TypedDict):
    vector: str
    cpu: int
    pid: int
    """Who was on the CPU; 0 is the idle task."""
    comm: str
    budget_us: float
    stack: list[str]
    """Kernel stack, innermost first."""


class Stall(_Softirq):
    """A raised softirq began later than its budget."""

    latency_us: float


class Overlong(_Softirq):
    """One run of a softirq held its CPU longer than its budget."""

    run_us: float


KINDS: dict[str, type] = {"softirq.stall": Stall, "softirq.overlong": Overlong}
