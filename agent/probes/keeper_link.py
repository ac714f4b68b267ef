"""keeper_link: what the keeper tells of the workloads, as sightings. The wire is that of `agent/keeping/messages.py`.

`state`, `exit` and `notice` are facts worth a record; `beats` repeat each second and are only shown (`SHOWN`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping

from agent.model import Data, Json, Severity, Sighting

NAME = "keeper_link"
SHOWN = frozenset({"workload.beats"})
"""Kinds that the pipeline shows to the detectors without a record."""

STATES: Mapping[str, Severity] = {
    "starting": "info",
    "running": "info",
    "reloading": "info",
    "stopping": "info",
    "stopped": "info",
    "held": "info",
    "backoff": "warning",
    "failed": "error",
}
PHASES = ("start", "run", "reload", "stop")
RAISED = re.compile(r"(?:video\.(?:audio_lost|timeout)|work\.[a-z0-9_]{1,32})")
"""Kinds of events that a workload may raise itself (X_GATEWARDEN_EVENT)."""
_TEXT = 200
_INTERVALS = 4096
_NAME = re.compile(r"[a-z0-9-]{1,32}")


def singly(message: Data) -> Iterator[Data]:
    """Give a message about several workloads as one message for each: one that cannot be read costs the others nothing."""
    beats = message.get("beats")
    if message.get("type") == "beats" and isinstance(beats, dict):
        yield from ({**message, "beats": {name: row}} for name, row in beats.items())
    else:
        yield message


def sightings(message: Data) -> Iterator[Sighting]:
    """Read one message of the keeper; one that tells nothing of a workload gives nothing. Raises ValueError."""
    match message.get("type"):
        case "state":
            yield _state(message)
        case "exit":
            yield from _exit(message)
        case "notice":
            yield _notice(message)
        case "beats":
            yield from _beats(message)
        case _:
            pass


def _state(message: Data) -> Sighting:
    state = _word(message, "state")
    if state not in STATES:
        raise ValueError(f"state {state!r} of no workload")
    data: Data = {
        "state": state,
        "pid": _number(message, "pid"),
        "reason": _text(message, "reason"),
        "restarts": _number(message, "restarts") or 0,
        "ready": message.get("ready") is True,
        "status": _text(message, "status"),
    }
    return _sighting(message, "workload.state", _name(message.get("name")), STATES[state], data)


def _exit(message: Data) -> Iterator[Sighting]:
    name = _name(message.get("name"))
    replaced, took = _number(message, "replaced_pid"), _real(message, "replaced_ms")
    data: Data = {key: _number(message, key) for key in ("pid", "code", "signal")}
    core = message.get("core")
    data |= {"core": core if isinstance(core, bool) else None, "replaced_pid": replaced, "replaced_ms": took}
    clean = data["code"] == 0 and not data["signal"]
    yield _sighting(message, "workload.exit", name, "info" if clean else "warning", data)
    if replaced is not None and took is not None:
        yield _sighting(message, "workload.restarted", name, "info", {"pid": replaced, "ms": took})


def _notice(message: Data) -> Sighting:
    """Give what is unusual; an event that the workload raised itself, or its profile, as a kind of its own."""
    name, what = _name(message.get("name")), _word(message, "what")
    given = message.get("data")
    data: Data = given if isinstance(given, dict) else {}
    if what == "event":
        kind = str(data.get("kind"))
        if not RAISED.fullmatch(kind):
            raise ValueError(f"a workload may not raise {kind[:64]!r}")
        inner = data.get("data")
        return _sighting(message, kind, name, "warning", inner if isinstance(inner, dict) else {})
    if what == "profile":
        return _sighting(message, "workload.profile", name, "info", data)
    return _sighting(message, "workload.notice", name, "warning", {"what": what, **data})


def _beats(message: Data) -> Iterator[Sighting]:
    beats = message.get("beats")
    for name, row in beats.items() if isinstance(beats, dict) else ():
        if isinstance(row, dict):
            yield _sighting(message, "workload.beats", _name(name), "info", _beat(row))


def _beat(row: Data) -> Data:
    intervals = row.get("intervals_ms")
    phase = row.get("phase")
    if phase not in PHASES:
        raise ValueError(f"phase {str(phase)[:_TEXT]!r} of no workload")
    kept: list[Json] = [n for n in intervals[-_INTERVALS:] if _finite(n)] if isinstance(intervals, list) else []
    return {
        "last_ns": _number(row, "last_ns") or 0,
        "intervals_ms": kept,
        "watchdog_us": _number(row, "watchdog_us"),
        "extend_until_ns": _number(row, "extend_until_ns"),
        "phase": phase,
    }


def _sighting(message: Data, kind: str, subject: str, severity: Severity, data: Data) -> Sighting:
    at = _number(message, "t_mono_ns")
    if at is None or at < 0:
        raise ValueError(f"{message.get('type')} without its time")
    return Sighting(at, NAME, kind, subject, severity, data)


def _name(value: Json) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{str(value)[:64]!r} is the name of no workload")
    return value


def _word(message: Data, key: str) -> str:
    value = message.get(key)
    if not isinstance(value, str):
        raise ValueError(f"{key} is missing")  # noqa: TRY004 - the contract of links: one kind of error
    return value[:_TEXT]


def _text(message: Data, key: str) -> str:
    value = message.get(key)
    return value[:_TEXT] if isinstance(value, str) else ""


def _number(message: Data, key: str) -> int | None:
    value = message.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63 else None


def _real(message: Data, key: str) -> float | None:
    value = message.get(key)
    return float(value) if isinstance(value, int | float) and _finite(value) else None


def _finite(value: Json) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15 and math.isfinite(value)
