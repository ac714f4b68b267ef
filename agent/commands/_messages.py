"""The shapes of what agentd sends besides events and metrics, for `agentctl schema`; more keys may come within version 1."""

from __future__ import annotations

from typing import Literal, TypedDict

from agent.commands._shapes import Open
from agent.model import State


class BirthProbe(TypedDict):
    """One probe when agentd appears; `reason` says why it does not run, or what of it was left out."""

    name: str
    state: State
    reason: str


class Birth(TypedDict):
    """The leaf `birth`, retained: who speaks, first on each connection."""

    schema: str
    version: str
    site: str
    gateway: str
    boot_id: str
    tier: str
    t_wall: float
    probes: list[BirthProbe]


class Presence(TypedDict):
    """The leaf `status`, retained: whether the agent is there; `maintenance` while everything is on hold."""

    state: Literal["online", "offline", "maintenance"]
    boot_id: str
    t_wall: float


class CheckRow(TypedDict):
    """One check of `agentctl doctor`; `remedy` is one line."""

    group: str
    name: str
    state: State
    reason: str
    remedy: str


class Health(TypedDict):
    """The leaf `health`: the verdict, how many checks there were, and those that are not ok."""

    schema: str
    state: State
    checks: int
    not_ok: list[CheckRow]


class Finding(TypedDict):
    """A record of the leaf `event`: what a detector holds of a subject; `evidence` are `seq` of events, newest last."""

    record: Literal["finding"]
    boot_id: str
    t_mono_ns: int
    t_wall: float
    detector: str
    subject: str
    state: State
    summary: str
    evidence: list[int]
    data: Open


class About(TypedDict):
    """The finding that a decision rests on."""

    detector: str
    subject: str


class Decision(TypedDict):
    """A record of the leaf `event`: an action that a policy wants, and why."""

    record: Literal["decision"]
    boot_id: str
    t_mono_ns: int
    t_wall: float
    action: str
    finding: About
    reason: str
    arguments: Open


class Outcome(TypedDict):
    """A record of the leaf `event`: what became of a decision."""

    record: Literal["outcome"]
    boot_id: str
    t_mono_ns: int
    t_wall: float
    action: str
    subject: str
    ok: bool
    detail: str
    data: Open


class Gap(TypedDict):
    """The leaf `gap`: messages of `stream` and `boot_id` that will never come; `count` is null if it cannot be known."""

    record: Literal["gap"]
    stream: str
    boot_id: str
    first_seq: int
    last_seq: int
    count: int | None
    reason: str


SHAPES: dict[str, type] = {
    "birth": Birth,
    "decision": Decision,
    "finding": Finding,
    "gap": Gap,
    "health": Health,
    "outcome": Outcome,
    "presence": Presence,
}
