"""How a service is that somebody else is the parent of, in the words of the keeper's workloads."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from typing import Any, cast

from agent.errors import BadRequest
from agent.model import Json


@dataclass(frozen=True, slots=True)
class ServiceState:
    """A unit or a container as its parent tells it. None is unknown."""

    state: str
    """As in `workload.state` (agent/kinds/workload.py)."""
    pid: int | None = None
    """Of the main process."""
    reason: str = ""
    restarts: int = 0
    """How often its parent has restarted it."""
    supervised: bool = False
    """Its parent restarts it without being asked."""
    last_pid: int | None = None
    """Of the main process that ended last."""
    code: int | None = None
    signal: int | None = None
    core: bool | None = None
    """How that one ended."""
    cgroup: str = ""
    """Below the root of the cgroup tree; empty while it has none."""


def from_text(text: str) -> ServiceState:
    """Read what the broker's errand gives, as JSON. Raises BadRequest."""
    try:
        data: Json = json.loads(text)
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict) or data.keys() != {field.name for field in fields(ServiceState)}:
        raise BadRequest("the broker's answer is not of this version's form: systemctl stop gatewarden-broker")
    return ServiceState(**cast("Any", data))  # root wrote it
