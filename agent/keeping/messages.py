"""The wire between keeper and agentd: JSON lines of at most 64 KiB. Here is every message's form, both ways.

keeper -> agentd, numbered by `seq` (see `history`): `state`, `exit`, `notice`; unnumbered: `hello`, `beats`, `done`.
agentd -> keeper: `subscribe`, `order`, `budget`, `ping` (answered by a `done`: all that was known before it has been told).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from agent import __version__
from agent.keeping.effects import Exit, Order
from agent.keeping.notify import one_line
from agent.model import Data, Json

LIMIT = 64 * 1024
VERBS = ("abort", "terminate", "restart", "stop", "start", "degrade", "restore", "hold", "resume")
NUMBERED = ("state", "exit", "notice")
_NAME = re.compile(r"[a-z0-9-]{1,32}")
_ID = 64  # characters of an order's id


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Send everything from now on, and what came after number `since` of keeper `keeper`."""

    keeper: str | None
    since: int


@dataclass(frozen=True, slots=True)
class BudgetChange:
    """Other limits for the immediate restarts of `name`."""

    name: str
    burst: int
    window_s: float


@dataclass(frozen=True, slots=True)
class Ping:
    """Say that you are there."""

    id: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """What is no request: `id` is that of the order, if one can be made out."""

    id: str | None
    why: str


Request: TypeAlias = Subscribe | Order | BudgetChange | Ping | Malformed


def read(line: bytes) -> Request:
    """Read one line from agentd; never raises."""
    given: Json = None
    if len(line) > LIMIT:
        return Malformed(None, f"a line of more than {LIMIT} bytes")
    try:
        given = json.loads(line)
        if not isinstance(given, dict):
            return Malformed(None, 'want a JSON object with "type"')
        return _READERS[_choice(given, "type", tuple(_READERS))](given)
    except (ValueError, RecursionError) as error:
        known = given.get("id") if isinstance(given, dict) else None
        return Malformed(known if isinstance(known, str) and len(known) <= _ID else None, one_line(str(error), 200))


def _subscribe(given: Data) -> Subscribe:
    keeper = given.get("keeper")
    if keeper is not None and not isinstance(keeper, str):
        raise ValueError("keeper: want a string or null")
    return Subscribe(keeper, int(_number(given, "since", 0, 1 << 62, whole=True)))


def _order(given: Data) -> Order:
    verb = _choice(given, "verb", VERBS)
    profile = _text(given, "profile", 32) if given.get("profile") is not None else ""
    if (verb == "degrade") != bool(profile):
        raise ValueError("profile: degrade needs one, the other verbs take none")
    return Order(_text(given, "id", _ID), verb, _name(given), _text({"reason": "", **given}, "reason", 1000), profile)


def _budget(given: Data) -> BudgetChange:
    burst = int(_number(given, "burst", 0, 1000, whole=True))
    return BudgetChange(_name(given), burst, _number(given, "window_s", 0.001, 86400))


def _ping(given: Data) -> Ping:
    return Ping(_text(given, "id", _ID))


def _choice(given: Data, key: str, known: tuple[str, ...]) -> str:
    value = given.get(key)
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{key}: want one of {', '.join(known)}")
    return value


def _name(given: Data) -> str:
    name = _text(given, "name", 32)
    if not _NAME.fullmatch(name):
        raise ValueError("name: want 1 .. 32 of a-z 0-9 -")
    return name


def _text(given: Data, key: str, limit: int) -> str:
    value = given.get(key)
    if not isinstance(value, str) or len(value) > limit:
        raise ValueError(f"{key}: want a string of at most {limit} characters")
    return one_line(value, limit)


def _number(given: Data, key: str, least: float, most: float, *, whole: bool = False) -> float:
    value = given.get(key)
    kinds = int if whole else (int, float)
    if isinstance(value, bool) or not isinstance(value, kinds) or not least <= value <= most:
        raise ValueError(f"{key}: want {'an integer' if whole else 'a number'} of {least:g} .. {most:g}")
    return value


_READERS: Mapping[str, Callable[[Data], Request]] = {
    "subscribe": _subscribe,
    "order": _order,
    "budget": _budget,
    "ping": _ping,
}


def encode(message: Data) -> bytes:
    """Give the line of a message of ours."""
    return json.dumps(message, separators=(",", ":")).encode() + b"\n"


def hello(keeper: str, pid: int, seq: int, lost: int) -> Data:
    """Say who answers a subscription; `lost` numbered messages are no longer kept."""
    return {"type": "hello", "keeper": keeper, "pid": pid, "version": __version__, "seq": seq, "lost": lost}


def exited(name: str, end: Exit, t_mono_ns: int, replaced_pid: int | None, replaced_ms: float | None) -> Data:
    """Say that a main process ended, and by whom it was replaced at once, if it was."""
    how: Data = {"code": end.code, "signal": end.signal, "core": end.core}
    after: Data = {"replaced_pid": replaced_pid, "replaced_ms": replaced_ms}
    return {"type": "exit", "t_mono_ns": t_mono_ns, "name": name, "pid": end.pid, **how, **after}


def notice(name: str, what: str, t_mono_ns: int, data: Data) -> Data:
    """Say what is unusual. The known kinds of `what` stand in docs/keeper.md."""
    return {"type": "notice", "t_mono_ns": t_mono_ns, "name": name, "what": what, "data": data}


def done(order: str | None, detail: str, ms: float, *, ok: bool) -> Data:
    """Answer an order."""
    return {"type": "done", "id": order, "ok": ok, "detail": detail, "ms": round(ms, 3)}


def beats(t_mono_ns: int, by_name: Data) -> Data:
    """Give the signs of life since the last such message."""
    return {"type": "beats", "t_mono_ns": t_mono_ns, "beats": by_name}
