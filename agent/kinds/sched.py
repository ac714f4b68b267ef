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
    """A task was woken after an uninterruptible sleep that lasted longer than its budget; it has no stack."""

    blocked_us: float
    waker_pid: int
    """Who was on the CPU when it was woken (0 is the idle task, so an interrupt)."""
    waker_comm: str


KINDS: dict[str, type] = {"sched.latency": Latency, "sched.blocked": Blocked}
