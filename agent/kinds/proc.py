"""Processes: `proc.exit`. Subject: the command name."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Exit(TypedDict):
    """A process is gone. Either `signal` is 0 and `code` is its exit status, or `signal` killed it and `code` is 0.

    Without eBPF (tier E) only that it is gone is known: `code`, `signal`, `core` and `oom` are None.
    """

    pid: int
    """The thread that left last."""
    tgid: int
    comm: str
    code: int | None
    signal: int | None
    core: bool | None
    """It left a core dump."""
    oom: bool | None
    """The out-of-memory killer chose it."""
    workload: str | None
    """The `[[workload]]` that it belonged to."""
    required: NotRequired[bool]
    """Whether that workload is required; absent without one."""


KINDS: dict[str, type] = {"proc.exit": Exit}
