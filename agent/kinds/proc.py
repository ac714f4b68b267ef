"""Processes: `proc.exit`. Subject: the command name."""

from __future__ import annotations

from typing import TypedDict


class Exit(TypedDict):
    """A process is gone. Either `signal` is 0 and `code` is its exit status, or `signal` killed it and `code` is 0."""

    pid: int
    """The thread that left last."""
    tgid: int
    comm: str
    code: int
    signal: int
    core: bool
    """It left a core dump."""
    oom: bool
    """The out-of-memory killer chose it."""
    workload: str | None
    """The `[[workload]]` that it belonged to."""


KINDS: dict[str, type] = {"proc.exit": Exit}
