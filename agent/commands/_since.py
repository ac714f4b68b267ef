"""The times that people write: after `--since`, and how long something is to last. Pure."""

from __future__ import annotations

import re
from datetime import datetime

from agent.errors import BadRequest

_AGO = re.compile(r"([0-9]{1,9})\s*(s|min|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def since(text: str, now_wall: float) -> float:
    """Give seconds since the epoch for `90s`, `15m`, `1h`, `2d` ago, or an ISO 8601 time (local unless it says otherwise).

    Raises BadRequest.
    """
    if ago := _AGO.fullmatch(text.strip()):
        return now_wall - int(ago[1]) * _SECONDS[ago[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise BadRequest(
            f"--since {text!r} is no time, allowed: 90s, 15m, 1h, 2d (ago, without a sign), or ISO 8601 as 2026-01-31T12:00"
        ) from error


def length(text: str) -> float:
    """Give the seconds of `90s`, `30m`, `1h`, `2d`. Raises BadRequest."""
    found = _AGO.fullmatch(text.strip())
    if found is None or not int(found[1]):
        raise BadRequest(f"{text!r} is no length of time, allowed: 90s, 30m, 1h, 2d")
    return float(int(found[1]) * _SECONDS[found[2]])
