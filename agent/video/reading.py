"""Which units of a stream are parameter sets, and what they say; whichever of the three codecs it is."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, TypeAlias

from agent.errors import BitstreamError
from agent.video import av1, h264, hevc, nal

Codec = Literal["h264", "hevc", "av1"]
CODECS: tuple[Codec, ...] = ("h264", "hevc", "av1")
Kind = Literal["vps", "sps", "pps", "sequence_header"]
Sequence: TypeAlias = h264.Sps | hevc.Sps | av1.SequenceHeader
"""What describes pictures."""
Record: TypeAlias = Sequence | h264.Pps | hevc.Vps | hevc.Pps
MOST_UNITS = 64
"""Parameter sets of one packet that are looked at; an access unit of real streams has up to a handful."""
_KINDS: dict[Codec, dict[int, Kind]] = {
    "h264": {h264.SPS: "sps", h264.PPS: "pps"},
    "hevc": {hevc.VPS: "vps", hevc.SPS: "sps", hevc.PPS: "pps"},
    "av1": {av1.SEQUENCE_HEADER: "sequence_header"},
}
_HEVC_VPS, _H264_SPS = b"\0\0\1\x40\1", re.compile(rb"\x00\x00\x01[\x27\x47\x67]")


@dataclass(frozen=True, slots=True)
class Unit:
    """One parameter set as it came: `data` without start code; of AV1, the payload of the OBU."""

    kind: Kind
    data: bytes


def units(codec: Codec, data: bytes) -> Iterator[Unit]:
    """Yield the parameter sets among the first units of `data` (Annex B, or OBUs). Raises BitstreamError for broken OBUs."""
    found = av1.obus(data) if codec == "av1" else _nal_units(codec, data)
    yield from islice((Unit(_KINDS[codec][kind], payload) for kind, payload in found if kind in _KINDS[codec]), MOST_UNITS)


def _nal_units(codec: Codec, data: bytes) -> Iterator[tuple[int, bytes]]:
    kind_of = h264.kind if codec == "h264" else hevc.kind
    for start, end in nal.spans(data):
        kind = kind_of(data[start : start + 2])
        if kind in _KINDS[codec]:  # the large ones are pictures: not copied
            yield kind, data[start:end].rstrip(b"\0")


def read(codec: Codec, unit: Unit, sequences: Mapping[int, Any]) -> tuple[int, Record]:
    """Give the id and the content of a parameter set; `sequences` are the SPS known by id. Raises BitstreamError."""
    if codec == "av1":
        return 0, av1.parse(unit.data)
    if codec == "h264":
        if unit.kind == "sps":
            sps = h264.parse_sps(unit.data)
            return sps.seq_parameter_set_id, sps
        pps = h264.parse_pps(unit.data, {**sequences})
        return pps.pic_parameter_set_id, pps
    return _read_hevc(unit)


def _read_hevc(unit: Unit) -> tuple[int, Record]:
    if unit.kind == "vps":
        vps = hevc.parse_vps(unit.data)
        return vps.vps_video_parameter_set_id, vps
    if unit.kind == "sps":
        sps = hevc.parse_sps(unit.data)
        return sps.sps_seq_parameter_set_id, sps
    pps = hevc.parse_pps(unit.data)
    return pps.pps_pic_parameter_set_id, pps


def pps_of_picture(codec: Codec, data: bytes) -> int | None:
    """Give the id of the PPS that the first picture of a packet refers to, None if there is none."""
    named = h264.pps_id_of_slice if codec == "h264" else hevc.pps_id_of_slice
    heads = islice(nal.first(data, 16), MOST_UNITS)
    return next((number for number in map(named, heads) if number is not None), None)


def other_codec(codec: Codec, data: bytes) -> tuple[Codec, int] | None:
    """Give the other one of H.264 and HEVC, and where in a packet it begins: a demuxer goes on as if nothing had changed."""
    start, supposed = _beginning(codec, data)
    if start < 0:
        return None
    try:
        kinds = {unit.kind for unit in units(supposed, data[start:]) if read(supposed, unit, {})}
    except BitstreamError:
        return None
    return (supposed, start) if {"sps", "pps"} <= kinds else None


def _beginning(codec: Codec, data: bytes) -> tuple[int, Codec]:
    if codec == "h264":
        return data.find(_HEVC_VPS), "hevc"
    match = _H264_SPS.search(data) if codec == "hevc" else None
    return match.start() if match else -1, "h264"
