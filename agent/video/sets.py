"""The parameter sets of a stream while it runs: known by id, active by what pictures refer to, and how the active ones change.

A set takes effect not where it comes, but with the first picture whose slice names a PPS that leads to it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace

from agent.errors import BitstreamError
from agent.video import av1, h264, hevc
from agent.video.change import Class, differing, graded
from agent.video.reading import Codec, Kind, Record, Sequence, Unit, other_codec, pps_of_picture, read, units

_ORDER: tuple[Kind, ...] = ("vps", "sps", "pps", "sequence_header")


@dataclass(frozen=True, slots=True)
class ParameterSet:
    """One that came: in which packet, at what time (of presentation, in seconds; None if the packet has none)."""

    codec: Codec
    kind: Kind
    id: int
    packet: int
    pts_s: float | None
    sha256: str
    """Of the unit without its start code; of AV1, of the OBU's payload."""
    record: Record


@dataclass(frozen=True, slots=True)
class Active:
    """What the current picture is decoded with; `sequence` is an SPS, or AV1's sequence header."""

    sequence: ParameterSet
    content: Sequence
    vps: ParameterSet | None = None
    pps: ParameterSet | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """Another set is active from this packet on; `fields` names what differs (nothing, where the codec does)."""

    packet: int
    pts_s: float | None
    grade: Class
    old: Active
    new: Active
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What a packet brought: sets that are new or differ from the one of their id, repeats, damaged ones, a change."""

    arrived: tuple[ParameterSet, ...] = ()
    repeats: int = 0
    damaged: tuple[str, ...] = ()
    change: Change | None = None


class Sets:
    """Fed with every packet of a stream. Bounded: a set for each id of its standard."""

    def __init__(self, codec: Codec) -> None:
        self.codec: Codec = codec
        self.active: Active | None = None
        self._known: dict[tuple[Kind, int], ParameterSet] = {}
        self._units: dict[tuple[Kind, int], bytes] = {}
        self._by_pps: dict[int, ParameterSet] = {}

    def packet(self, index: int, pts_s: float | None, data: bytes) -> Seen:
        """Take packet `index` (Annex B, or OBUs)."""
        other = other_codec(self.codec, data)
        if other:
            self.turn(other[0])
            data = data[other[1] :]
        seen = self._arrivals(index, pts_s, data)
        return replace(seen, change=self._activated(index, pts_s, data))

    def headers(self) -> bytes:
        """Give all that are known, as Annex B: what a decoder lacks that begins at a picture which brings none of its own."""
        ordered = sorted(self._units, key=lambda key: _ORDER.index(key[0]))
        return b"".join(b"\0\0\0\1" + self._units[key] for key in ordered if key[0] != "sequence_header")

    def turn(self, other: Codec) -> None:
        """Go on with another codec, or another multiplex of the same; what is active stays until a picture of the new one."""
        self.codec = other
        for held in (self._known, self._units, self._by_pps):
            held.clear()

    def _arrivals(self, index: int, pts_s: float | None, data: bytes) -> Seen:
        arrived: list[ParameterSet] = []
        damaged: list[str] = []
        repeats = 0
        try:
            for unit in units(self.codec, data):
                if unit.data in self._units.values():
                    repeats += 1
                    continue
                try:
                    arrived.append(self._arrival(index, pts_s, unit))
                except BitstreamError as error:
                    damaged.append(f"{unit.kind}: {error}")
        except BitstreamError as error:
            damaged.append(str(error))
        return Seen(tuple(arrived), repeats, tuple(damaged))

    def _arrival(self, index: int, pts_s: float | None, unit: Unit) -> ParameterSet:
        sequences = {number: item.record for (kind, number), item in self._known.items() if kind == "sps"}
        number, record = read(self.codec, unit, sequences)
        digest = hashlib.sha256(unit.data).hexdigest()
        found = ParameterSet(self.codec, unit.kind, number, index, pts_s, digest, record)
        self._known[unit.kind, number] = found
        self._units[unit.kind, number] = unit.data
        return found

    def _activated(self, index: int, pts_s: float | None, data: bytes) -> Change | None:
        new = self._referred(data)
        if new is None:
            return None
        old, self.active = self.active, new
        if old is None or old.sequence.codec != new.sequence.codec:
            self._by_pps = {new.pps.id: new.pps} if new.pps else {}
            return Change(index, pts_s, "codec", old, new, ()) if old else None
        fields = self._differing(old, new)
        return Change(index, pts_s, graded(fields), old, new, fields) if fields else None

    def _referred(self, data: bytes) -> Active | None:
        """Follow the first slice to its PPS and on to its SPS; None if there is no slice, or one of them is not known."""
        if self.codec == "av1":
            header = self._known.get(("sequence_header", 0))
            return Active(header, header.record) if header and isinstance(header.record, av1.SequenceHeader) else None
        number = pps_of_picture(self.codec, data)
        pps = None if number is None else self._known.get(("pps", number))
        if pps is None or not isinstance(pps.record, h264.Pps | hevc.Pps):
            return None
        sps = self._known.get(("sps", _sps_id(pps.record)))
        if sps is None or not isinstance(sps.record, h264.Sps | hevc.Sps):
            return None
        vps = self._known.get(("vps", sps.record.sps_video_parameter_set_id)) if isinstance(sps.record, hevc.Sps) else None
        return Active(sps, sps.record, vps, pps)

    def _differing(self, old: Active, new: Active) -> tuple[str, ...]:
        """Compare sequences and VPS with what was active, but a PPS with the last of its id: streams use several in turn."""
        pairs = [(old.sequence, new.sequence)]
        if old.vps and new.vps:
            pairs.append((old.vps, new.vps))
        if new.pps:
            pairs.append((self._by_pps.get(new.pps.id, new.pps), new.pps))
            self._by_pps[new.pps.id] = new.pps
        changed = (differing(before.record, after.record) for before, after in pairs if before is not after)
        return tuple(dict.fromkeys(name for names in changed for name in names))


def _sps_id(pps: h264.Pps | hevc.Pps) -> int:
    return pps.seq_parameter_set_id if isinstance(pps, h264.Pps) else pps.pps_seq_parameter_set_id
