"""NAL units out of every wrapping: start codes, lengths, decoder configurations."""

from __future__ import annotations

import base64
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BitstreamError
from agent.video import nal
from tests.media.making import ffmpeg
from tests.video.encoded import encode

# What a sender leaves between start codes: no start code, no zero at the end.
UNITS = st.lists(st.binary(min_size=1, max_size=40).map(lambda raw: raw.replace(b"\0", b"\2")), max_size=12)


@given(UNITS, st.data())
def test_start_codes(found: list[bytes], data: st.DataObject) -> None:
    """Pins three- and four-byte start codes, zeros after a unit, and that bytes before the first start code are none."""
    stream = b"\5\6"
    for unit in found:
        stream += data.draw(st.sampled_from([b"\0\0\1", b"\0\0\0\1", b"\0\0\0\0\0\1"])) + unit
    assert list(nal.annex_b(stream + bytes(data.draw(st.integers(0, 5))))) == found
    assert [head.rstrip(b"\0") for head in nal.first(stream, 3)] == [unit[:3] for unit in found]


@given(UNITS, st.sampled_from([1, 2, 4]))
def test_lengths(found: list[bytes], length_size: int) -> None:
    """Pins units with their length before them, and that one which is cut off is told."""
    stream = b"".join(len(unit).to_bytes(length_size) + unit for unit in found)
    assert list(nal.sized(stream, length_size)) == found
    if found:
        with pytest.raises(BitstreamError, match="cut off"):
            list(nal.sized(stream[:-1], length_size))


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_decoder_configurations(codec: str) -> None:
    """Pins avcC and hvcC as ffmpeg writes them, by the sets of the same stream; cut off anywhere, they are an error of ours."""
    raw = encode(codec, "")
    movie = ffmpeg("-f", codec, "-i", f"data:application/octet-stream;base64,{_base64(raw)}", *_COPY)
    box = {"h264": b"avcC", "hevc": b"hvcC"}[codec]
    start = movie.index(box) - 4
    record = movie[start + 8 : start + int.from_bytes(movie[start : start + 4])]
    sets = list(nal.annex_b(raw))[: 3 if codec == "hevc" else 2]
    assert [unit for unit in nal.configured(codec, record) if unit in sets] == sets
    assert nal.configured(codec, nal_stream(sets)) == tuple(sets)
    for end in range(1, len(record)):
        with contextlib.suppress(BitstreamError):
            assert len(nal.configured(codec, record[:end])) <= 4


_COPY = ("-c", "copy", "-movflags", "frag_keyframe+empty_moov", "-f", "mp4", "-")


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def nal_stream(sets: list[bytes]) -> bytes:
    """Give units with start codes."""
    return b"".join(b"\0\0\1" + unit for unit in sets)
