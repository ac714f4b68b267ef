"""Interrupts: `irq.slow`, `irq.storm`, `irq.spurious`. Subject: `<line> <name>`."""

from __future__ import annotations

from typing import TypedDict


class _Irq(TypedDict):
    line: int
    name: str
    """Of the first handler on the line."""
    cpu: int
    pid: int
    """Who was interrupted; 0 is the idle task."""
    comm: str
    stack: list[str]
    """Kernel stack, innermost first."""


class Slow(_Irq):
    """One handler ran longer than its budget."""

    run_us: float
    budget_us: float


class Storm(_Irq):
    """One line fired `count` times within `window_ms`."""

    count: int
    budget: int
    window_ms: int


class Spurious(Storm):
    """Of `count` interrupts of a line within `window_ms` no handler took `spurious`, which are more than nine in ten."""

    spurious: int


KINDS: dict[str, type] = {"irq.slow": Slow, "irq.storm": Storm, "irq.spurious": Spurious}
