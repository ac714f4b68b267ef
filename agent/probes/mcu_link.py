"""mcu_link: what the microcontroller tells, as sightings. Its messages are those that `agent/mcu/client.py` makes of frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from agent.model import Data, Json, Severity, Sighting

NAME = "mcu_link"
SUBJECT = "mcu"
RESETS = ("unknown", "power_on", "brownout", "pin", "software", "watchdog")
POWERED = ("none", "mcu_start", "lease_expired", "requested")
_COUNTERS = (
    *("tries", "crc_errors", "frame_errors", "gaps", "repeats", "bad_tokens"),
    *("spi_timeouts", "i2c_timeouts", "overruns", "self_checks"),
)


def sightings(message: Data) -> Iterator[Sighting]:
    """Read one message; a STATUS without news gives nothing. Raises ValueError on one that is not of this form."""
    match message.get("type"):
        case "version":
            supported = message.get("supported") is True
            data: Data = {"firmware": f"{_number(message, 'firmware'):08x}", "supported": supported}
            data |= {key: _number(message, key) for key in ("proto_min", "proto_max")}
            yield _sighting(message, "mcu.version", "info" if supported else "error", data)
        case "reset":
            yield _reset(message)
        case "lost":
            data = {"why": str(message.get("why")), "phase": str(message.get("phase")), "left_s": message.get("left_s")}
            yield _sighting(message, "mcu.lease_lost", "critical", data)
        case "status":
            yield from _status(message)
        case other:
            raise ValueError(f"no message of the microcontroller is of type {str(other)[:32]!r}")


def evidence(hello: Mapping[str, int]) -> str:
    """Give what it knows of the gateway's last start, as `MCU` of agent/resets/causes.py has it; empty: nothing."""
    powered, reset = _word(POWERED, hello.get("power_reason", 0)), _word(RESETS, hello.get("reset", 0))
    if powered == "mcu_start":
        return reset if reset in {"power_on", "brownout"} else ""
    return powered if powered in {"lease_expired", "requested"} else ""


def _reset(message: Data) -> Sighting:
    reset, powered = _word(RESETS, _number(message, "reset")), _word(POWERED, _number(message, "power_reason"))
    again = message.get("again") is True
    bad = again or reset in {"watchdog", "brownout"} or powered == "lease_expired"
    data: Data = {"again": again, "reset": reset, "power_reason": powered}
    data |= {key: _number(message, key) for key in ("boots", "cycles", "expiries")}
    return _sighting(message, "mcu.reset", "warning" if bad else "info", data)


def _status(message: Data) -> Iterator[Sighting]:
    grown = message.get("grown")
    grown = grown if isinstance(grown, dict) else {}
    if not grown and message.get("first") is not True:
        return
    data: Data = {"grown": cast("Json", grown)}
    data |= {f"{key}_s": _number(message, f"{key}_ms") / 1000 for key in ("uptime", "next_off")}
    data |= {key: _number(message, key) for key in _COUNTERS}
    yield _sighting(message, "mcu.status", "warning" if grown else "info", data)


def _sighting(message: Data, kind: str, severity: Severity, data: Data) -> Sighting:
    return Sighting(_number(message, "t_mono_ns"), NAME, kind, SUBJECT, severity, data)


def _number(message: Data, key: str) -> int:
    value = message.get(key)
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{key} is missing")
    return value


def _word(words: tuple[str, ...], number: int) -> str:
    return words[number] if 0 <= number < len(words) else f"code_{number}"
