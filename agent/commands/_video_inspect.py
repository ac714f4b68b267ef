"""video inspect: the parameter sets of a file and their changes, without decoding it."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from agent.commands import _exit
from agent.commands._call import Call
from agent.commands._screen import Screen
from agent.commands._status_view import text
from agent.commands._table import NOTHING, number, table
from agent.errors import BadRequest
from agent.linux import videosource
from agent.model import Data, Json, State
from agent.narrow import part, rows
from agent.ports import Packet
from agent.video.reading import CODECS, Codec
from agent.video.sets import Active, Change, ParameterSet, Sets

SCHEMA = "gatewarden.video.inspect/1"
HEADERS = ("KIND", "ID", "PACKET", "TIME s", "PROFILE", "LEVEL", "SIZE", "CHROMA", "BITS", "FPS", "SHA256")
CHANGES = ("CLASS", "PACKET", "TIME s", "FROM", "TO", "FIELDS")
_KEYS = ("profile_idc", "profile", "level", "width", "height", "chroma_format", "bit_depth", "fps")
_MOST = 1000
"""Rows of each table that are kept: a stream that flips for ever must not fill the memory."""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="a video file of H.264, HEVC or AV1: TS, MP4, FLV, raw, …")
    _exit.add_fail_on(parser)


def run(call: Call) -> int:
    """Read it and show. Exit code 0 whatever is found, unless `--fail-on` says otherwise."""
    found = inspected(videosource.packets(str(call.option("file"))))
    if call.json:
        call.screen.json(found.json())
    else:
        for line in view(call.screen, found.json()):
            call.screen.line(line)
    fail_on = call.option("fail_on")
    return _exit.of_state(found.state, fail_on) if fail_on else _exit.OK


@dataclass(slots=True)
class Found:
    """What was seen of a file so far."""

    codec: Codec = "h264"
    container: str = ""
    """The codec that the container announces by now."""
    packets: int = 0
    parameter_sets: list[Json] = field(default_factory=list)
    changes: list[Json] = field(default_factory=list)
    repeats: int = 0
    damaged: list[Json] = field(default_factory=list)
    omitted: int = 0
    state: State = "critical"

    def add(self, table_rows: list[Json], row: Data) -> None:
        """Keep a row, or count it."""
        if len(table_rows) < _MOST:
            table_rows.append(row)
        else:
            self.omitted += 1

    def damage(self, what: str) -> None:
        """Note something that cannot be read."""
        self.add(self.damaged, {"packet": self.packets, "what": what})
        self.worsen("degraded")

    def worsen(self, state: State) -> None:
        """Lower the state: from ok alone, critical stays until a picture is understood."""
        self.state = state if self.state == "ok" else self.state

    def json(self) -> Data:
        """Give the report."""
        return {
            "schema": SCHEMA,
            "state": self.state,
            "codec": self.codec,
            "packets": self.packets,
            "parameter_sets": self.parameter_sets,
            "changes": self.changes,
            "repeats": self.repeats,
            "damaged": self.damaged,
            "omitted": self.omitted,
        }


def inspected(packets: Iterable[Packet]) -> Found:
    """Take packets to their end, or to where they cannot be read any further. Raises BadRequest if that is at the beginning."""
    found, sets = Found(), Sets("h264")
    try:
        for packet in packets:
            _take(found, sets, packet)
            found.packets += 1
    except BadRequest as error:
        if not found.packets:
            raise
        found.damage(str(error))
    if not found.packets:
        raise BadRequest("there is not one packet of video in it")
    if sets.active is None:
        found.damage("no picture refers to parameter sets that came: nothing can be decoded")
    return found


def _take(found: Found, sets: Sets, packet: Packet) -> None:
    known = sets.active is not None
    if packet.codec != found.container:
        found.container = codec = next(each for each in CODECS if each == packet.codec)
        found.codec = found.codec if known else codec
        sets.turn(codec)
    seen = sets.packet(packet.serial, packet.pts_s, packet.data)
    if sets.active and not known:
        found.codec = sets.codec
        found.state = "degraded" if found.damaged else "ok"
    for item in seen.arrived:
        found.add(found.parameter_sets, _row(item))
    for what in seen.damaged:
        found.damage(what)
    found.repeats += seen.repeats
    if seen.change:
        found.add(found.changes, _change(seen.change))
        if seen.change.grade in {"format", "codec"}:
            found.worsen("degraded")


def _row(item: ParameterSet) -> Data:
    row: Data = {"kind": item.kind, "id": item.id, "codec": item.codec, "packet": item.packet, "pts_s": item.pts_s}
    if item.kind != "pps":
        row |= {key: getattr(item.record, key, None) for key in _KEYS}
    return row | {"sha256": item.sha256}


def _change(change: Change) -> Data:
    return {
        "packet": change.packet,
        "pts_s": change.pts_s,
        "class": change.grade,
        "from": _format(change.old),
        "to": _format(change.new),
        "fields": [*change.fields],
    }


def _format(active: Active) -> Data:
    item = active.sequence
    told: Data = {key: getattr(active.content, key) for key in _KEYS}
    return {"codec": item.codec, "id": item.id, **told, "sha256": item.sha256}


def view(screen: Screen, found: Data) -> Iterator[str]:
    """Draw a report."""
    state, packets = text(found.get("state")), number(found.get("packets"))
    yield f"{screen.paint(state, state)}  {text(found.get('codec'))}, {packets} packets"
    sets, changes, damaged = (rows(found, key) for key in ("parameter_sets", "changes", "damaged"))
    if sets:
        yield ""
        yield from table(screen, HEADERS, [_cells(row) for row in sets], (10, 9, 3))
        yield f"{number(found.get('repeats'))} more came again as they were"
    if changes:
        yield ""
        yield from table(screen, CHANGES, [_change_cells(row) for row in changes], (5, 2))
    if damaged:
        yield ""
        yield from table(screen, ("PACKET", "DAMAGE"), [(number(row.get("packet")), text(row.get("what"))) for row in damaged])
    if found.get("omitted"):
        yield f"{number(found.get('omitted'))} rows are left out"


def _cells(row: Data) -> tuple[str, ...]:
    values = [text(row.get("kind")), number(row.get("id")), number(row.get("packet")), number(row.get("pts_s"))]
    values += [_told(row, "profile"), _told(row, "level"), _size(row), _told(row, "chroma_format")]
    return (*values, number(row.get("bit_depth")), number(row.get("fps")), text(row.get("sha256"))[:12])


def _change_cells(row: Data) -> tuple[str, ...]:
    sides = (f"{_told(side, 'profile')} {_size(side)}" for side in (part(row, "from"), part(row, "to")))
    fields = cast("list[Json]", row.get("fields") or [])
    return text(row.get("class")), number(row.get("packet")), number(row.get("pts_s")), *sides, ", ".join(map(str, fields))


def _told(row: Data, key: str) -> str:
    value = row.get(key)
    return NOTHING if value is None else text(value)


def _size(row: Data) -> str:
    width = row.get("width")
    return NOTHING if width is None else f"{text(width)}x{text(row.get('height'))}"
