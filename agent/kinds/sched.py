"""The scheduler: `sched.latency`, `sched.blocked`. Subject: the command name of the task."""

from __future__ import annotations

from typing import TypedDict


class _Task(TypedDict):
    pid: int
    tgid: int
    """Its process."""
    comm: str
    cpu: int
    budget_us: float
    stack: list[str]
    """Kernel stack, innermost first."""


class Latency(_Task):
    """A task that could run waited for a CPU longer than its budget."""

    wait_us: float
    running_pid: int
    """Who held the CPU until then (0 is the idle task); the stack is theirs."""
    running_comm: str


class Blocked(_Task):
    """A task sleeps uninterruptibly for longer than its budget, or was woken after such a sleep; it has no stack.

    It is told once while it sleeps, when that is noticed, and once more when it wakes.
    """

    blocked_us: float
    """So far, or in all."""
    waker_pid: int | None
    """Who was on the CPU when it was woken (0 is the idle task, so an interrupt); None while it sleeps, and no name then."""
    waker_comm: str


KINDS: dict[str, type] = {"sched.latency": Latency, "sched.blocked": Blocked}
