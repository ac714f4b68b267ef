"""NAL units and how they are put one after another: with start codes (H.264 and HEVC Annex B), or with lengths (avcC, hvcC)."""

from __future__ import annotations

from collections.abc import Iterator

from agent.errors import BitstreamError

_START = b"\0\0\1"
_AVCC_HEAD, _HVCC_HEAD = 6, 23
_HVCC_ARRAY, _LENGTH = 3, 2


def spans(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield where each NAL unit between start codes begins and ends, zeros after it included; none begins before the first."""
    start = data.find(_START)
    while start >= 0:
        following = data.find(_START, start + 3)
        yield start + 3, following if following >= 0 else len(data)
        start = following


def annex_b(data: bytes) -> Iterator[bytes]:
    """Yield the NAL units between start codes, without zeros after them."""
    for start, end in spans(data):
        unit = data[start:end].rstrip(b"\0")
        if unit:
            yield unit


def first(data: bytes, most: int) -> Iterator[bytes]:
    """Yield the first `most` bytes of each NAL unit between start codes: enough for headers, without copying pictures."""
    start = data.find(_START)
    while start >= 0:
        begin = start + 3
        end = data.find(_START, begin, begin + most)
        yield data[begin : end if end >= 0 else begin + most]
        start = data.find(_START, begin)


def sized(data: bytes, length_size: int) -> Iterator[bytes]:
    """Yield the NAL units that have their length before them (`length_size` bytes). Raises BitstreamError for one cut off."""
    at = 0
    while at < len(data):
        start = at + length_size
        at = start + int.from_bytes(data[at:start])
        if at > len(data):
            raise BitstreamError(f"cut off: a NAL unit ends at byte {at} of {len(data)}")
        yield data[start:at]


def configured(codec: str, record: bytes) -> tuple[bytes, ...]:
    """Give the parameter sets of a decoder configuration, whichever way it is written.

    It is Annex B, an AVCDecoderConfigurationRecord (ISO/IEC 14496-15, 5.3.3.1), or an HEVCDecoderConfigurationRecord (8.3.3.1).
    Raises BitstreamError.
    """
    if record[:1] != b"\1":
        return tuple(annex_b(record))
    return tuple(_avcc(record) if codec == "h264" else _hvcc(record))


def _avcc(record: bytes) -> Iterator[bytes]:
    at, masks = _AVCC_HEAD - 1, (0x1F, 0xFF)  # SPS, then PPS; what follows of FRExt only repeats the SPS
    for mask in masks:
        count = _byte(record, at) & mask
        at += 1
        for _ in range(count):
            unit, at = _counted(record, at)
            yield unit


def _hvcc(record: bytes) -> Iterator[bytes]:
    at = _HVCC_HEAD
    for _ in range(_byte(record, _HVCC_HEAD - 1)):
        count = int.from_bytes(record[at + 1 : at + _HVCC_ARRAY])
        at += _HVCC_ARRAY
        for _each in range(count):
            unit, at = _counted(record, at)
            yield unit


def _byte(record: bytes, at: int) -> int:
    if at >= len(record):
        raise BitstreamError(f"cut off: a decoder configuration of {len(record)} bytes, {at + 1} needed")
    return record[at]


def _counted(record: bytes, at: int) -> tuple[bytes, int]:
    start = at + _LENGTH
    end = start + int.from_bytes(record[at:start])
    if end > len(record) or start > len(record):
        raise BitstreamError(f"cut off: a decoder configuration of {len(record)} bytes, {max(start, end)} needed")
    return record[start:end], end
