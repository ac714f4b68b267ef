"""The shapes of `agentctl race … --json`, for `agentctl schema`; more keys may come within version 1."""

from __future__ import annotations

from typing import Literal, TypedDict

Context = Literal["task", "softirq", "hardirq", "nmi"]
Verdict = Literal["race", "none seen", "inconclusive"]


class ScanSide(TypedDict):
    """Who did it, or what was going on; `t_ns` is CLOCK_MONOTONIC."""

    cpu: int
    context: Context
    pid: int
    comm: str
    symbol: str
    t_ns: int


class ScanSides(TypedDict):
    """Both sides of a race."""

    actor: ScanSide
    other: ScanSide


class ScanStacks(TypedDict):
    """The kernel stacks of both sides, innermost first."""

    actor: list[str]
    other: list[str]


ScanFinding = TypedDict(
    "ScanFinding",
    {
        "class": Literal["F1", "F2", "F3", "F4", "F5", "F7", "F8", "F9", "F10", "F11"],
        "verdict": Literal["fault", "suspect", "benign"],
        "reason": str,
        "callback": str,
        "actor": str,
        "timer": str,
        "cpus": list[int],
        "count": int,
        "confirmed": Literal["kernel", "state"],
        "stacks": ScanStacks,
        "transition": str,
        "kind": Literal["timer", "hrtimer", "hrtimer_soft"],
        "value": int,
        "distance_us": float,
        "sides": ScanSides,
    },
)
ScanFinding.__doc__ = "One race by class, verdict, callback and actor; stacks and sides are those of its first occurrence."


class ScanSeen(TypedDict):
    """What was looked at; `deletes` in tier A alone, `frees_skipped` are those over the budget."""

    starts: int
    expiries: int
    cancels: int
    deletes: int
    frees: int
    frees_skipped: int


class LivePatch(TypedDict):
    """A live patch of the running kernel; null where the kernel does not say."""

    name: str
    enabled: bool | None
    transition: bool | None
    functions: list[str]


class Scan(TypedDict):
    """`agentctl race scan --json`: `lost` suspicions found no room, `missed_runs` events were not shown by the kernel."""

    schema: str
    seconds: float
    source: Literal["agentd", "own"]
    tier: Literal["A", "B", "C", "unknown"]
    findings: list[ScanFinding]
    seen: ScanSeen
    lost: int
    missed_runs: int | None
    livepatches: list[LivePatch]


class Load(TypedDict):
    """The instruction that loaded what a writer stores."""

    symbol: str
    instruction: str


class ProveWriter(TypedDict):
    """One writing instruction; `load` is null where it does both itself, or where that is not certain."""

    symbol: str
    instruction: str
    load: Load | None
    atomic: bool
    contexts: list[Context]
    cpus: list[int]
    writes: int
    stack: list[str]


class ProveWindow(TypedDict):
    """One window; `unweighed` says why it proves nothing."""

    seconds: float
    writes: int
    growth: int
    lost_updates: int
    unweighed: str | None


class Proof(TypedDict):
    """What is known of one variable; `lost_updates` is a lower bound."""

    symbol: str
    address: str
    length: int
    writes: int
    growth: int
    lost_updates: int
    writers: list[ProveWriter]
    windows: list[ProveWindow]
    verdict: Verdict
    reason: str


class Prove(Proof):
    """`agentctl race prove --json`."""

    schema: str


class Hunt(TypedDict):
    """`agentctl race hunt --json`: `scanned` variables of `modules`; `lost` are events that found no room."""

    schema: str
    proved: list[Proof]
    acquitted: list[Proof]
    modules: list[str]
    scanned: int
    lost: int


SHAPES: dict[str, type] = {"race.scan": Scan, "race.prove": Prove, "race.hunt": Hunt}
