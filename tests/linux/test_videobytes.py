"""Bytes of video around decoding: tables of a transport stream, YUV4MPEG2, samples without padding, the input adapter."""

from __future__ import annotations

import io
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BadRequest, BitstreamError
from agent.linux import tstables, videoplanes, y4m
from agent.linux.pyav import library
from agent.linux.videoadapter import Adapter, Shape, shape
from agent.linux.videosource import Cut
from agent.linux.y4m import Header
from agent.ports import Picture
from tests.media import making

av = pytest.importorskip("av")
FORMATS = ("yuv420p", "yuv422p", "yuv444p", "yuv420p10le", "gray", "nv12", "rgb24", "bgra", "gray10le")


def test_tables_turn_once_where_the_codec_does() -> None:
    """Pins that H.264 -> HEVC on one PID is seen at the packet of the PMT, and tables that only repeat turn nothing."""
    turns = {}
    for name in ("h264-hevc", "77-100-244", "corrupt"):
        data, tables = making.path(name).read_bytes(), tstables.Tables()
        found = (at for at in range(0, len(data), 188) if tables.turns(data[at : at + 188]))
        turns[name] = [data[at + 2] | (data[at + 1] & 0x1F) << 8 for at in found]
    assert turns == {"h264-hevc": [0x1000], "77-100-244": [], "corrupt": []}


@given(st.lists(st.binary(min_size=187, max_size=187), max_size=20))
def test_any_packets(bodies: list[bytes]) -> None:
    """Pins that no packet whatever breaks the tables, and that what has no checksum turns nothing."""
    tables = tstables.Tables()
    assert not any(tables.turns(b"G" + body) for body in bodies)


def test_a_damaged_table_turns_nothing() -> None:
    """Pins that a PMT with one wrong bit is not believed."""
    data = bytearray(making.path("h264-hevc").read_bytes())
    tables = tstables.Tables()
    at = next(at for at in range(0, len(data), 188) if tables.turns(bytes(data[at : at + 188])))
    fresh = tstables.Tables()
    data[at + 20] ^= 1
    assert not any(fresh.turns(bytes(data[begin : begin + 188])) for begin in range(0, at + 188, 188))


def test_the_cut_loses_no_byte() -> None:
    """Pins that both multiplexes together are the file, with the association table once more before the second one."""
    data = making.path("h264-hevc").read_bytes()
    cut = Cut(io.BytesIO(data))
    parts = [_whole(cut)]
    while cut.following():
        parts.append(_whole(cut))
    assert len(parts) == 2
    assert parts[0] + parts[1][188:] == data
    assert parts[1][:188] in data


def _whole(cut: Cut) -> bytes:
    return b"".join(iter(lambda: cut.read(1000), b""))


@pytest.mark.parametrize("pixels", y4m.FORMATS)
@pytest.mark.parametrize("full", [False, True])
def test_headers_come_back(pixels: str, full: bool) -> None:  # noqa: FBT001 - a parameter
    """Pins that what is written is read."""
    header = Header(322, 182, pixels, full)
    assert y4m.parse(header.line().rstrip(b"\n"), 10**6) == header


@given(st.binary(max_size=100).filter(lambda data: b"\n" not in data))
def test_any_header(data: bytes) -> None:
    """Pins that any line is a header or an error of ours."""
    for line in (data, b"YUV4MPEG2 " + data):
        try:
            found = y4m.parse(line, 10**6)
        except BitstreamError:
            continue
        assert 0 < found.width * found.height <= 10**6


@pytest.mark.parametrize("line", [b"YUV4MPEG2 W99999999 H99999999 C444", b"YUV4MPEG2 W0 H5", b"YUV4MPEG2 W4 H4 C999", b"RIFF"])
def test_headers_that_are_refused(line: bytes) -> None:
    """Pins the limit on samples, before anything of that size is reserved."""
    with pytest.raises(BitstreamError):
        y4m.parse(line, 10**6)


@pytest.mark.parametrize("pixels", FORMATS)
@pytest.mark.parametrize("size", [(64, 48), (322, 182), (33, 17)])
def test_samples_without_padding(pixels: str, size: tuple[int, int]) -> None:
    """Pins that taking out the padding and putting it in are opposites, odd sizes included."""
    count = videoplanes.size(*size, pixels)
    samples = Random(1).randbytes(count)
    frame = videoplanes.unpacked(memoryview(samples), *size, pixels)
    assert b"".join(map(bytes, videoplanes.packed(frame))) == samples


def picture(width: int, height: int, pixels: str, grey: int, *, colour_range: int = 1) -> Picture:
    """Give a picture of one grey."""
    frame = library().VideoFrame(width, height, pixels)
    for plane, value in zip(frame.planes, (grey, 128, 128), strict=False):
        plane.update(bytes([value]) * plane.buffer_size)
    frame.color_range = colour_range
    return Picture(0, width, height, pixels, corrupt=False, image=frame)


def test_the_adapter_keeps_everything_constant() -> None:
    """Pins size, pixel format, and range: grey of full range comes out as the grey of limited range that it is."""
    adapter = Adapter(Shape(320, 180, "yuv444p"))
    sources = [
        picture(640, 360, "yuv420p", 126),
        picture(128, 96, "yuv444p", 126),
        picture(320, 180, "yuv420p", 128, colour_range=2),
    ]
    for source in sources * 2:
        found = adapter.adapted(source)
        assert (found.width, found.height, found.pixel_format) == (320, 180, "yuv444p")
        assert (found.image.width, int(found.image.color_range), int(found.image.colorspace)) == (320, 1, 1)
        samples = set(bytes(memoryview(found.image.planes[0]))[:320])
        assert samples <= {125, 126, 127}


def test_what_is_right_already_stays_so() -> None:
    """Pins that a picture of the wanted shape, range and matrix passes with the same samples."""
    source = picture(320, 180, "yuv420p", 77)
    source.image.colorspace = 1
    found = Adapter(Shape(320, 180, "yuv420p")).adapted(source)
    assert list(map(bytes, videoplanes.packed(found.image))) == list(map(bytes, videoplanes.packed(source.image)))


def test_reformatters_are_bounded() -> None:
    """Pins that a stream of ever other sizes keeps the last few tables alone."""
    adapter = Adapter(Shape(64, 64, "yuv420p"))
    for width in range(16, 116, 2):
        adapter.adapted(picture(width, 32, "yuv420p", 50))
    assert len(adapter._reformatters) <= 8


@given(st.text(max_size=30))
def test_any_shape(text: str) -> None:
    """Pins that any text is a shape or an error of ours."""
    try:
        found = shape(text)
    except BadRequest:
        return
    assert 2 <= found.width <= 8192
