"""The status object: from agentd, or the last one that it left behind, always with every key of the contract."""

from __future__ import annotations

import json
from pathlib import Path
from typing import cast

from agent import regular
from agent.errors import BadRequest, NotRunning
from agent.linux.clock import SystemClock, boot_id
from agent.linux.unix import ask_patiently
from agent.model import STATES, Data, Json, State
from agent.place import Place

SCHEMA = "gatewarden.status/1"
TIMEOUT_S = 2.0
_LIMIT = 4 << 20


def blank(place: Place) -> Data:
    """Give a status of which nothing is known: all keys of the contract, `null` for what cannot be told."""
    return {
        "schema": SCHEMA,
        "state": "unknown",
        "gateway": place.name,
        "site": place.site,
        "version": None,
        "boot_id": None,
        "uptime_s": None,
        "tier": None,
        "last_reset": {"cause": "unknown", "confidence": "none"},
        "probes": [],
        "mqtt": {"state": "unknown", "backlog_bytes": None, "oldest_s": None, "dropped": None, "dropped_s": None},
        "workloads": [],
        "streams": [],
        "gpus": [],
        "watchdogs": [],
        "findings": [],
        "agent": dict.fromkeys(("uss_kib", "cpu_pct", "wakeups_per_s", "map_kib", "flash_bytes_per_day")),
    }


def fetch(place: Place, timeout_s: float = TIMEOUT_S) -> Data:
    """Ask agentd. Raises NotRunning, Busy, Refused, BadRequest (an answer that is no status)."""
    return parse(ask_patiently(place.control, {"verb": "status"}, timeout_s), place)


def fetch_or_last(place: Place, timeout_s: float = TIMEOUT_S) -> Data:
    """Ask agentd, else give its last status with `stale_s` added. Raises Busy, Refused and BadRequest."""
    try:
        return fetch(place, timeout_s)
    except NotRunning as error:
        return last(place) | {"not_running": str(error)}


def parse(value: Json, place: Place) -> Data:
    """Complete a status that came from elsewhere. A key of a wrong type is as good as missing. Raises BadRequest."""
    if not isinstance(value, dict) or value.get("state") not in STATES:
        raise BadRequest("the answer is no status of agentd")
    known = blank(place)
    fitting = {key: item for key, item in value.items() if _fits(item, known.get(key))}
    for key in ("last_reset", "mqtt", "agent"):
        if isinstance(fitting.get(key), dict):
            fitting[key] = cast("Data", known[key]) | cast("Data", fitting[key])
    return known | fitting | {"schema": SCHEMA}


def _fits(item: Json, example: Json) -> bool:
    if isinstance(example, list):
        return isinstance(item, list) and all(isinstance(row, dict) for row in item)
    if isinstance(example, dict):
        return isinstance(item, dict)
    return example is None or isinstance(item, type(example))


def last(place: Place) -> Data:
    """Give the last status that agentd wrote, with `stale_s` (its age; `null` if there never was one)."""
    try:
        status, written = _read(place.last_status, place)
    except (OSError, BadRequest):
        return blank(place) | {"boot_id": boot_id(), "stale_s": None}
    return status | {"stale_s": round(max(0.0, SystemClock().wall() - written), 1)}


def _read(path: Path, place: Place) -> tuple[Data, float]:
    raw = regular.read(path, _LIMIT)  # whatever lies there, a FIFO included, it must not hold us up
    written = path.stat().st_mtime
    try:
        return parse(json.loads(raw), place), written
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"{path} is no JSON") from error


def running(status: Data) -> bool:
    """Whether it came from a living agentd."""
    return "stale_s" not in status


def state_of(status: Data) -> State:
    """Give its verdict."""
    return cast("State", status["state"])
