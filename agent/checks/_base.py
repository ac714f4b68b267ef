"""What a check is, and what several of them need."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from agent.linux.facts import Facts
from agent.model import State

Group = Literal["configuration", "kernel", "privileges", "probes", "watchdog", "workloads", "telemetry", "resources"]
GROUPS: tuple[Group, ...] = (
    *("configuration", "kernel", "privileges", "probes", "watchdog", "workloads", "telemetry", "resources"),
)


@dataclass(frozen=True, slots=True)
class Check:
    """One result. `remedy` is one line, empty if the state is ok."""

    group: Group
    name: str
    state: State
    reason: str
    remedy: str = ""


def version(release: str) -> tuple[int, int] | None:
    """Give (major, minor) of `uname -r`, None if it does not begin with them."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", release)
    return (int(found[1]), int(found[2])) if found else None


def may_load(facts: Facts) -> bool:
    """Tell whether this process may load programs."""
    held = facts.capabilities or frozenset()
    return "SYS_ADMIN" in held or {"BPF", "PERFMON"} <= held
