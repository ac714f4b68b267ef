"""Recorded events: out of the store itself, read-only, whether agentd runs or not; who may not read it asks agentd."""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import partial

from agent.errors import BadRequest, NotRunning, StoreError
from agent.linux.unix import ask_patiently
from agent.model import Data
from agent.place import Place
from agent.telemetry import history
from agent.telemetry.history import Found

TIMEOUT_S = 10.0
MOST = 1000  # what agentd gives in one answer


def read(place: Place, limit: int, since_wall: float | None, kind: str) -> Found:
    """Give the newest `limit` records whose kind matches the glob `kind` (or lies below it: `timer` has `timer.late`).

    `cut` if agentd was asked and left some out. Raises Busy, Refused, StoreError if the store cannot be read and no agentd
    answers, and NotRunning if there is neither of them.
    """
    reason: StoreError | None = None
    if history.exists(place.state_dir):
        try:
            return _own(place, limit, since_wall, kind)
        except StoreError as error:
            reason = error
    try:
        return _asked(place, limit, since_wall, kind)
    except NotRunning as error:
        if reason is not None:
            raise reason from None
        raise NotRunning(f"{error}; and there is no store of events in {place.state_dir} yet") from error


def _own(place: Place, limit: int, since_wall: float | None, kind: str) -> Found:
    wanted = None if kind == "*" else partial(matches, glob=kind)
    return history.recent(place.state_dir, limit, since_wall, family(kind), wanted=wanted)


def _asked(place: Place, limit: int, since_wall: float | None, kind: str) -> Found:
    plain = family(kind)
    choose = plain is None and kind != "*"  # agentd cannot: the newest of all are chosen among here
    request: Data = {"verb": "events", "limit": MOST + 1 if choose else limit, "since_wall": since_wall, "kind": plain}
    answer = ask_patiently(place.control, request, TIMEOUT_S)
    events = answer.get("events") if isinstance(answer, dict) else None
    if not isinstance(answer, dict) or not isinstance(events, list):
        raise BadRequest(f"{place.control}: the answer is no list of events: is agentd another one than agentctl?")
    fitting = [row for row in events if isinstance(row, dict) and matches(kind_of(row), kind)]
    return Found(fitting[-limit:], len(fitting) < limit and answer.get("cut") is True)


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
