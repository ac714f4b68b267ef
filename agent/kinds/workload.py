"""Workloads: `workload.*`. Subject: the workload's name (`keeper` for `workload.link`, `gateway` for a hold of everything).

`workload.known`, `beats`, `told`, `starved` and `check` are shown to the detectors and never recorded.
"""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict


class Known(TypedDict):
    """What the configuration says of a workload; told to the detectors at the start."""

    deadline_s: float
    """Start value of its deadline."""
    ceiling_s: float | None
    """No deadline of work that runs is longer: the hardware watchdog's time-out less its pretimeout; None without one."""
    liveness: Literal["none", "ready", "watchdog"]
    """What proves its life: nothing, that it became ready, or beats (of sd_notify, a counter file or a probe)."""


class State(TypedDict):
    """The keeper moved a workload to another state, or told it all states anew."""

    state: Literal["starting", "running", "reloading", "stopping", "backoff", "stopped", "failed", "held"]
    pid: int | None
    """Of the main process; another one is another incarnation."""
    reason: str
    restarts: int
    ready: bool
    status: str
    """What the workload says of itself (STATUS=)."""


class Exit(TypedDict):
    """The main process of a workload ended."""

    pid: int
    code: int | None
    signal: int | None
    core: bool | None
    replaced_pid: int | None
    """Of the process that was started at once in its place; None: later, or never."""
    replaced_ms: float | None


class Restarted(TypedDict):
    """A process was started in the place of one that ended."""

    pid: int
    ms: float
    """From the end of the old one."""


class Notice(TypedDict):
    """The keeper met something unusual about a workload."""

    what: str
    """`exec_failed`, `budget_spent`, `unkillable`, `start_timeout`, `malformed`, `bad_sender`, … (docs/keeper.md)."""
    pid: NotRequired[int | None]
    why: NotRequired[str]
    before: NotRequired[int | None]
    """The main process until then."""
    waited_s: NotRequired[float]
    next_try_s: NotRequired[float]
    restarts: NotRequired[int]
    faults: NotRequired[list[str]]
    errno: NotRequired[int]


class Profile(TypedDict):
    """A workload goes on with another profile; empty: its full one."""

    profile: str


class Beats(TypedDict):
    """What a workload said of its life since the last such sample."""

    last_ns: int
    """CLOCK_MONOTONIC of its newest beat."""
    intervals_ms: list[float]
    """Between its beats, oldest first."""
    watchdog_us: int | None
    """WATCHDOG_USEC, if it asked for one."""
    extend_until_ns: int | None
    """Until when it asked for patience (EXTEND_TIMEOUT_USEC)."""
    phase: Literal["start", "run", "reload", "stop"]


class Link(TypedDict):
    """The connection to the keeper came or went: without it no beat arrives, and silence proves nothing."""

    up: bool


class Told(TypedDict):
    """The keeper answered: it was there at that time, and no silence of a workload is surely longer than until then."""

    until_ns: int


class Starved(TypedDict):
    """How long the tasks of a workload waited for a CPU and had one, since they began."""

    wait_us_total: float
    run_us_total: NotRequired[float]


class Check(TypedDict):
    """One health check of a workload from outside."""

    ok: bool
    ms: float
    why: str
    """What was wrong, empty if nothing was."""


class Hold(TypedDict):
    """An operator ordered that nothing be done to a workload (or to all), or ended that."""

    until_ns: int
    """CLOCK_MONOTONIC; 0: the hold is over."""
    why: str


KINDS: dict[str, type] = {
    "workload.known": Known,
    "workload.state": State,
    "workload.exit": Exit,
    "workload.restarted": Restarted,
    "workload.notice": Notice,
    "workload.profile": Profile,
    "workload.beats": Beats,
    "workload.link": Link,
    "workload.told": Told,
    "workload.starved": Starved,
    "workload.check": Check,
    "workload.hold": Hold,
}
