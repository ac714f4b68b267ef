"""One sd_notify(3) datagram, with the keys of ours besides (`X_GATEWARDEN_…`). Unknown keys are ignored, as the protocol wants.

What a key has wrong is told as a fault and leaves the other keys of the datagram as they are. FDPOLL, MONOTONIC_USEC, BUSERROR
and NOTIFYACCESS are known to systemd and mean nothing here. BARRIER is answered by closing the descriptor that came along.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.model import Data

LIMIT = 8 * 1024  # bytes; systemd reads 4 KiB, X_GATEWARDEN_DATA alone may have as much
DATA_LIMIT = 4 * 1024
TEXT_LIMIT = 256  # characters of STATUS
NESTED = 64
FAULTS = 8  # of one datagram that are told
LONGEST_US = 86_400_000_000  # a day; a longer watchdog or extension would be none
_PIDS = 1 << 22  # PID_MAX_LIMIT, include/linux/threads.h
_EVENT = re.compile(r"video\.(?:audio_lost|timeout)|work\.[a-z0-9_]{1,32}")
_PROFILE = re.compile(r"[a-z0-9-]{0,32}")
_FD_NAME = re.compile(r"[!-9;-~]{0,255}")  # printable ASCII without space and colon: sd_pid_notify_with_fds(3)
_NAME_IF_NONE = "stored"


@dataclass(frozen=True, slots=True)
class Said:
    """What one datagram says. None: it does not speak of that.

    `watchdog_us` is 0 to switch the watchdog off; `work` a running total; `event` and `event_data` belong together.
    """

    ready: bool = False
    reloading: bool = False
    stopping: bool = False
    beat: bool = False
    trigger: bool = False
    store: bool = False
    remove: bool = False
    fd_name: str = _NAME_IF_NONE
    status: str | None = None
    errno: int | None = None
    main_pid: int | None = None
    watchdog_us: int | None = None
    extend_us: int | None = None
    event: str | None = None
    event_data: Data | None = None
    profile: str | None = None
    work: int | None = None
    faults: tuple[str, ...] = ()


def parse(datagram: bytes) -> Said:
    """Read one datagram; never raises. The last of equal keys counts."""
    found: dict[str, object] = {}
    faults = []
    if len(datagram) > LIMIT:
        return Said(faults=(f"more than {LIMIT} bytes",))
    for line in datagram.split(b"\n"):
        key, equals, value = line.decode("utf-8", "replace").partition("=")
        if not equals and line.strip(b"\0 "):
            faults.append("a line without =")
        if key in _KEYS and equals:
            try:
                found |= _KEYS[key](value)
            except (ValueError, RecursionError) as error:
                faults.append(f"{key}: {error}")
    return Said(**found, faults=tuple(faults[:FAULTS]))  # type: ignore[arg-type]  # each reader gives fields of Said


def one_line(text: str, limit: int = TEXT_LIMIT) -> str:
    """Give foreign text without what is not printable, at most `limit` characters of it."""
    return "".join(char if char.isprintable() else " " for char in text[:limit]).strip()


def _flag(field: str) -> Callable[[str], dict[str, object]]:
    def read(value: str) -> dict[str, object]:
        if value != "1":
            raise ValueError("want 1")
        return {field: True}

    return read


def _count(field: str, least: int, most: int) -> Callable[[str], dict[str, object]]:
    def read(value: str) -> dict[str, object]:
        if not (value.isascii() and value.isdecimal() and len(value) <= 20 and least <= int(value) <= most):
            raise ValueError(f"want an integer of {least} .. {most}")
        return {field: int(value)}

    return read


def _text(field: str, form: re.Pattern[str], what: str) -> Callable[[str], dict[str, object]]:
    def read(value: str) -> dict[str, object]:
        if not form.fullmatch(value):
            raise ValueError(f"want {what}")
        return {field: value}

    return read


def _watchdog(value: str) -> dict[str, object]:
    if value not in {"1", "trigger"}:
        raise ValueError("want 1 or trigger")
    return {"beat" if value == "1" else "trigger": True}


def _status(value: str) -> dict[str, object]:
    return {"status": one_line(value)}


def _fd_name(value: str) -> dict[str, object]:
    if not _FD_NAME.fullmatch(value):
        raise ValueError("want at most 255 printable ASCII characters without space and colon")
    return {"fd_name": value or _NAME_IF_NONE}


def _data(value: str) -> dict[str, object]:
    if len(value.encode()) > DATA_LIMIT:
        raise ValueError(f"want at most {DATA_LIMIT} bytes")
    if value.count("{") + value.count("[") > NESTED:
        raise ValueError(f"want at most {NESTED} arrays and objects")
    given = json.loads(value)
    if not isinstance(given, dict):
        raise ValueError("want a JSON object")  # noqa: TRY004 - one kind of error for the caller
    json.dumps(given, allow_nan=False)  # ValueError on NaN and on 1e999, which Python alone calls JSON
    return {"event_data": given}


_KEYS: Mapping[str, Callable[[str], dict[str, object]]] = {
    "READY": _flag("ready"),
    "RELOADING": _flag("reloading"),
    "STOPPING": _flag("stopping"),
    "WATCHDOG": _watchdog,
    "WATCHDOG_USEC": _count("watchdog_us", 0, LONGEST_US),
    "EXTEND_TIMEOUT_USEC": _count("extend_us", 1, LONGEST_US),
    "STATUS": _status,
    "ERRNO": _count("errno", 0, 4095),
    "MAINPID": _count("main_pid", 2, _PIDS),
    "FDSTORE": _flag("store"),
    "FDSTOREREMOVE": _flag("remove"),
    "FDNAME": _fd_name,
    "X_GATEWARDEN_EVENT": _text("event", _EVENT, "video.audio_lost, video.timeout or work.NAME"),
    "X_GATEWARDEN_DATA": _data,
    "X_GATEWARDEN_PROFILE": _text("profile", _PROFILE, "0 .. 32 of a-z 0-9 -"),
    "X_GATEWARDEN_WORK": _count("work", 0, (1 << 63) - 1),
}
