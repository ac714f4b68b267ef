"""mcu_link: messages of the lease client to sightings, and the evidence for a reset cause."""

from __future__ import annotations

from typing import cast, get_type_hints

import pytest

from agent.kinds.mcu import KINDS
from agent.model import Data
from agent.probes import link, links, mcu_link
from agent.resets.causes import MCU

HELLO: Data = dict.fromkeys(("firmware", "proto_min", "proto_max", "boots", "cycles", "expiries", "reset"), 1)
HELLO["power_reason"] = 0
STATUS: Data = dict.fromkeys(
    (
        *("uptime_ms", "next_off_ms", "tries", "crc_errors", "frame_errors", "gaps", "repeats", "bad_tokens"),
        *("spi_timeouts", "i2c_timeouts", "overruns", "self_checks"),
    ),
    2_000,
)
MESSAGES: list[Data] = [
    {"type": "version", "t_mono_ns": 5, "supported": True, **HELLO},
    {"type": "reset", "t_mono_ns": 5, "again": False, **HELLO},
    {"type": "lost", "t_mono_ns": 5, "why": "expired", "phase": "run", "left_s": 0.0},
    {"type": "status", "t_mono_ns": 5, "first": True, "grown": {}, **STATUS},
]


def test_it_is_a_link() -> None:
    """Pins that it is found as one, and by its name."""
    assert "mcu_link" in links()
    assert link("mcu_link").NAME == "mcu_link"


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: str(message["type"]))
def test_each_message_is_a_kind(message: Data) -> None:
    """Pins kind, subject, time and exactly the keys that agent/kinds/mcu.py lists."""
    (found,) = mcu_link.sightings(message)
    assert (found.source, found.subject, found.t_mono_ns) == ("mcu_link", "mcu", 5)
    assert set(found.data) == set(get_type_hints(KINDS[found.kind]))


def test_a_status_without_news_is_no_event() -> None:
    """Pins that only growth of a counter of errors is worth a record after the first."""
    quiet = MESSAGES[3] | {"first": False}
    assert list(mcu_link.sightings(quiet)) == []
    (found,) = mcu_link.sightings(quiet | {"grown": {"spi_timeouts": 2}})
    assert (found.severity, found.data["grown"]) == ("warning", {"spi_timeouts": 2})
    assert found.data["next_off_s"] == 2.0


@pytest.mark.parametrize(
    ("fields", "severity"),
    [
        ({}, "info"),
        ({"again": True}, "warning"),
        ({"reset": 5}, "warning"),
        ({"power_reason": 2}, "warning"),
        ({"reset": 99}, "info"),
    ],
)
def test_severity_of_a_reset(fields: Data, severity: str) -> None:
    """Pins which resets are news of something wrong; a number of a newer firmware is shown as it is."""
    (found,) = mcu_link.sightings(MESSAGES[1] | fields)
    assert found.severity == severity
    assert fields.get("reset") != 99 or found.data["reset"] == "code_99"


@pytest.mark.parametrize(
    "message",
    [{}, {"type": "beats"}, {"type": "reset", "again": True}, {"type": "lost", "t_mono_ns": "now"}],
)
def test_anything_else_is_refused(message: Data) -> None:
    """Pins the one error of links."""
    with pytest.raises(ValueError, match=r"missing|no message"):
        list(mcu_link.sightings(message))


def test_the_evidence_is_in_the_words_of_the_merge() -> None:
    """Pins what agent/resets/causes.py may be handed: its own words or nothing, for any numbers."""
    found = {mcu_link.evidence({"power_reason": power, "reset": reset}) for power in range(9) for reset in range(9)}
    assert found == {"", *MCU}
    assert mcu_link.evidence({}) == ""
    assert mcu_link.evidence(cast("dict[str, int]", {"power_reason": 2, "reset": 1})) == "lease_expired"
