"""The two ends of the wire have one layout: firmware_hooks/include/gatewarden/wire.h against agent/mcu."""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cache
from pathlib import Path

import pytest

from agent.mcu import messages, wire
from agent.mcu.messages import Payload
from agent.probes import mcu_link

HEADER = Path(__file__).parents[2] / "firmware_hooks/include/gatewarden/wire.h"


@cache
def constants() -> dict[str, int]:
    """Give every number of the header by its name without `GW_`; an enumerator without a value is one more than before."""
    text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
    found = {name: int(value, 0) for name, value in re.findall(r"^#define GW_(\w+) (\w+)", text, re.MULTILINE)}
    for block in re.findall(r"enum[\s\w]*\{(.*?)\}", text, re.DOTALL):
        following = 0
        for name, value in re.findall(r"GW_(\w+)(?:\s*=\s*(\w+))?", block):
            found[name] = int(value, 0) if value else following
            following = found[name] + 1
    return found


@pytest.mark.parametrize("payload", messages.ALL, ids=lambda payload: payload.name)
def test_payloads(payload: Payload) -> None:
    """Pins each field's offset and each payload's size, and that neither side has a field that the other lacks."""
    sized = {f"{payload.name}_{field}".upper(): at for field, at in payload.offsets()} | {f"{payload.name}_SIZE": payload.size}
    others = tuple(f"{other.name}_" for other in messages.ALL if other.name.startswith(f"{payload.name}_"))
    theirs = {
        name: value
        for name, value in constants().items()
        if name.startswith(f"{payload.name}_") and not name.startswith(others) and name != f"{payload.name}_MOST"
    }
    assert theirs == sized


@pytest.mark.parametrize(
    ("prefix", "kind"),
    [
        ("TYPE", wire.Type),
        ("PHASE", wire.Phase),
        ("RESULT", wire.Result),
        ("RESET", wire.Reset),
        ("REASON", wire.Reason),
    ],
)
def test_numbers(prefix: str, kind: type[IntEnum]) -> None:
    """Pins the types, phases, results and reasons."""
    theirs = {name.removeprefix(f"{prefix}_"): value for name, value in constants().items() if name.startswith(f"{prefix}_")}
    assert theirs == {one.name: one.value for one in kind}


def test_sizes() -> None:
    """Pins the envelope; one frame with its delimiter fits a DMA half-buffer of 64 bytes."""
    ours = {"PROTO_MIN": wire.PROTO_MIN, "PROTO_MAX": wire.PROTO_MAX, "PAYLOAD_MAX": wire.PAYLOAD_MAX}
    ours |= {"CRC_SIZE": wire.CRC_SIZE, "WIRE_MAX": wire.WIRE_MAX, "FLAG_REPEAT": wire.FLAG_REPEAT}
    ours |= {"EVENTLOG_MOST": messages.EVENTLOG_MOST, "PHASES": len(wire.Phase)}
    assert {name: constants()[name] for name in ours} == ours
    assert wire.WIRE_MAX <= 64


def test_the_link_knows_the_words() -> None:
    """Pins the words of `mcu.reset` to the numbers of the wire (third-row packages share no module)."""
    assert [one.name.lower() for one in wire.Reset] == list(mcu_link.RESETS)
    assert [one.name.lower() for one in wire.Reason][: len(mcu_link.POWERED)] == list(mcu_link.POWERED)
