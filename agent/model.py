"""The four envelopes that travel through the house: Event, Finding, Decision, Outcome.

    probe -> Event -> detector -> Finding -> policy -> Decision -> action -> Outcome

Each is frozen and slotted; what it carries in `data` is plain JSON, with the keys that `agent/kinds/` lists for its kind.
Times: `t_mono_ns` is CLOCK_MONOTONIC in nanoseconds (it orders), `t_wall` is seconds since the epoch in UTC (it informs, and
can step).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "degraded", "critical", "unknown"]
Severity: TypeAlias = Literal["info", "warning", "error", "critical"]
Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Data: TypeAlias = "dict[str, Json]"

# Worst first: the state of a whole is the first of these that one of its parts has.
STATES: tuple[State, ...] = ("critical", "degraded", "unknown", "ok")


def worst(states: list[State]) -> State:
    """Give the state of a whole from those of its parts; a whole without parts is `ok`."""
    return next((state for state in STATES if state in states), "ok")


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a probe read, before the pipeline gives it a place in the order of this boot.

    `t_mono_ns` is the time of the fact itself (taken in the kernel where it can be), not of its reading.
    """

    t_mono_ns: int
    source: str
    kind: str
    subject: str
    severity: Severity
    data: Data = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """A fact. `(boot_id, seq)` is unique on one gateway; `seq` grows by one from 1 within a boot."""

    boot_id: str
    seq: int
    t_mono_ns: int
    t_wall: float
    source: str
    kind: str
    subject: str
    severity: Severity
    data: Data = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Finding:
    """An opinion with evidence: `detector` holds that `subject` is in `state`.

    A finding is raised when its state leaves `ok`, repeated when it changes, and ended by one with state `ok`.
    `evidence` names the events (their `seq`) that it rests on, newest last, at most 16.
    """

    t_mono_ns: int
    detector: str
    subject: str
    state: State
    summary: str
    evidence: tuple[int, ...] = ()
    data: Data = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """An intent: run `action` (a key of `agent.actions.ACTIONS`) because of `finding`."""

    t_mono_ns: int
    action: str
    finding: Finding
    reason: str
    arguments: Data = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a decision. `ok` is whether the action did what it says; `detail` says what it did."""

    t_mono_ns: int
    action: str
    subject: str
    ok: bool
    detail: str
    data: Data = field(default_factory=dict)


Record: TypeAlias = Event | Finding | Decision | Outcome


def plain(record: Record) -> Data:
    """Give `record` as a JSON object with `record` naming its envelope ("event", "finding", …)."""
    return {"record": type(record).__name__.lower(), **asdict(record)}
