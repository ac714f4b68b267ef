"""Recorded events: from agentd, else out of its store, read-only."""

from __future__ import annotations

from fnmatch import fnmatchcase

from agent.errors import BadRequest, NotRunning
from agent.linux.unix import ask
from agent.model import Data
from agent.place import Place

TIMEOUT_S = 10.0
_MOST = 1000  # what agentd gives in one answer


def read(place: Place, limit: int, since_wall: float | None, kind: str) -> list[Data]:
    """Give the newest `limit` records whose kind matches the glob `kind` (or lies below it: `timer` has `timer.late`).

    Oldest first. Raises Refused, and StoreError if there is neither an agentd nor a readable store.
    """
    plain, asked = family(kind), limit
    if plain is None and kind != "*":
        asked = _MOST  # chosen among here
    found = _ask(place, asked, since_wall, plain)
    return [row for row in found if matches(kind_of(row), kind)][-limit:]


def _ask(place: Place, limit: int, since_wall: float | None, kind: str | None) -> list[Data]:
    request: Data = {"verb": "events", "limit": min(limit, _MOST), "since_wall": since_wall, "kind": kind}
    try:
        found = ask(place.control, request, TIMEOUT_S)
    except NotRunning:
        from agent.telemetry import history  # noqa: PLC0415 - sqlite3, only where there is nobody to ask

        return history.recent(place.state_dir, limit, since_wall, kind)
    if not isinstance(found, list):
        raise BadRequest(f"{place.control}: the answer is no list of events")
    return [row for row in found if isinstance(row, dict)]


def family(kind: str) -> str | None:
    """Give the kind or family that the store can choose by for a glob, None if it cannot: `timer.*` is the family `timer`."""
    plain = kind.removesuffix(".*")
    return plain if plain and not set(plain) & set("*?[") else None


def matches(kind: str, glob: str) -> bool:
    """Say whether `kind` is meant by `glob`: as it is, as its family, or by wildcards."""
    return kind.startswith(f"{glob}.") or fnmatchcase(kind, glob)


def kind_of(row: Data) -> str:
    """Give the dotted kind of an event, or the envelope and what it is about: `finding.timer_late`, `outcome.snapshot`."""
    if isinstance(row.get("kind"), str):
        return str(row["kind"])
    return f"{row.get('record', 'event')}.{row.get('detector') or row.get('action') or ''}".rstrip(".")
