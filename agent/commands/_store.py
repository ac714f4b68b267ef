"""Recorded events: from agentd, else out of its store, read-only."""

from __future__ import annotations

from agent.commands._place import Place
from agent.errors import BadRequest, NotRunning
from agent.linux.unix import ask
from agent.model import Data

TIMEOUT_S = 10.0
_MOST_ASKED = 1000


def read(place: Place, limit: int, since_wall: float | None, kind: str) -> list[Data]:
    """Give the newest `limit` records, oldest first. Raises Refused, StoreError, NotRunning (no agentd, and no store)."""
    request: Data = {"verb": "events", "limit": limit, "since_wall": since_wall, "kind": None if kind == "*" else kind}
    try:
        found = ask(place.control, request, TIMEOUT_S)
    except NotRunning:
        from agent.telemetry import outbox  # noqa: PLC0415 - sqlite3, only where there is nobody to ask

        return outbox.read(place.outbox, limit, since_wall, kind)
    if not isinstance(found, list):
        raise BadRequest(f"{place.control}: the answer is no list of events")
    return [row for row in found if isinstance(row, dict)]
