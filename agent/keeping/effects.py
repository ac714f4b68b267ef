"""What the thinking part wants done, and what it is told happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from agent.model import Data


@dataclass(frozen=True, slots=True)
class Spawn:
    """Start the program of workload `name`, with profile `profile` ("": the full one)."""

    name: str
    profile: str


@dataclass(frozen=True, slots=True)
class Signal:
    """Send signal `number` to the main process of `name`, with `group` to all of its process group."""

    name: str
    number: int
    group: bool


@dataclass(frozen=True, slots=True)
class WriteProfile:
    """Put `profile` where the running workload `name` looks for it."""

    name: str
    profile: str


@dataclass(frozen=True, slots=True)
class Tell:
    """A message to agentd; the numbered kinds get their number when they are sent."""

    message: Data


Effect: TypeAlias = Spawn | Signal | WriteProfile | Tell
Effects: TypeAlias = list[Effect]


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended; without `code` and `signal` nobody knows (it was not our child)."""

    pid: int
    code: int | None = None
    signal: int | None = None
    core: bool = False


@dataclass(frozen=True, slots=True)
class Order:
    """What agentd wants of one workload. `profile` belongs to degrade; `reason` is for people."""

    id: str
    verb: str
    name: str
    reason: str = ""
    profile: str = ""
