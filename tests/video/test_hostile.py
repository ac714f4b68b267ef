"""Bytes that are no video, or no longer: accepted, or one error of ours, in bounded time."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.commands._video_inspect import inspected
from agent.errors import BadRequest, BitstreamError
from agent.linux import videosource
from agent.video import av1, h264, hevc
from agent.video.reading import CODECS, Codec, Kind, Unit, read, units
from agent.video.sets import Sets
from tests.media import making
from tests.video.encoded import encode
from tests.video.writing import Writer, annex_b, h264_pps, h264_slice, h264_sps, unit

KINDS: tuple[Kind, ...] = ("vps", "sps", "pps")
LONG_S = 2.0
"""Far above what any of it takes, far below what an endless loop would."""


def raw(codec: Codec) -> bytes:
    """Give a real stream."""
    return encode(codec, "hrd=1:vbv-maxrate=500:vbv-bufsize=500" if codec == "hevc" else "")


@st.composite
def mutated(draw: st.DrawFn) -> tuple[Codec, bytes]:
    """Give a real stream whose bits, bytes and order were changed, cut or repeated in a few places."""
    codec = draw(st.sampled_from(CODECS))
    data = bytearray(raw(codec)[:600])
    for _ in range(draw(st.integers(0, 8))):
        at = draw(st.integers(0, len(data)))
        kind = draw(st.sampled_from(["flip", "cut", "insert", "double"]))
        if kind == "flip" and at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "cut":
            del data[at : at + draw(st.integers(0, 9))]
        elif kind == "insert":
            data[at:at] = draw(st.binary(max_size=9))
        else:
            data[at:at] = data[at : at + draw(st.integers(0, 60))]
    return codec, bytes(data)


@settings(max_examples=400, deadline=1000)
@given(mutated())
def test_mutated_streams(stream: tuple[Codec, bytes]) -> None:
    """Pins that no change of a stream gives anything but records and errors of ours."""
    codec, data = stream
    sets = Sets(codec)
    for index in range(2):
        seen = sets.packet(index, None, data)
        assert all(isinstance(what, str) for what in seen.damaged)
    for named in CODECS:
        Sets(named).packet(0, None, data)


@settings(max_examples=300, deadline=1000)
@given(st.sampled_from(CODECS), st.sampled_from(KINDS), st.binary(max_size=300))
def test_random_units(codec: Codec, kind: Kind, data: bytes) -> None:
    """Pins every parser against bytes at random behind a header that calls them a parameter set."""
    head = {"vps": b"\x40\1", "sps": b"\x42\1", "pps": b"\x44\1"}[kind] if codec == "hevc" else b"\x67"
    with contextlib.suppress(BitstreamError):
        assert read(codec, Unit(kind, head + data), {})[0] < 256


@given(st.binary(max_size=400))
def test_random_obus(data: bytes) -> None:
    """Pins the walk over OBUs: it ends, with OBUs or an error."""
    with contextlib.suppress(BitstreamError):
        assert sum(len(payload) for _kind, payload in av1.obus(data)) <= len(data)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (h264_sps(1024, 1024), "16384x16384 is too large, allowed: 35651584 samples"),
        (h264_sps(65536, 65536), "1048576x1048576 is too large"),
        (h264_sps(crop=(200, 0, 0, 0)), "takes 400 \\+ 0 of a width of 320: nothing is left"),
        (h264_sps(crop=(0, 0, 48, 48)), "takes 96 \\+ 96 of a height of 192"),
        (h264_sps(number=32), "seq_parameter_set_id is 32, allowed: 0 .. 31"),
        (h264_sps(references=17), "max_num_ref_frames is 17"),
        (b"\x67", "cut off"),
        (b"\x67" + bytes(400), "no Exp-Golomb code"),
        (b"\x67" + b"\x55" * 20_000, "20001 bytes, allowed: 16384"),
    ],
)
def test_refused_sps(data: bytes, words: str) -> None:
    """Pins what an SPS may not say, and that the error names it: nothing of that size was ever reserved."""
    with pytest.raises(BitstreamError, match=words):
        h264.parse_sps(data)


def test_hevc_and_av1_have_the_same_limit() -> None:
    """Pins that 16384x16384 is refused by all three."""
    sps = Writer().u(4, 0).u(3, 0).u(1, 1).u(8, 1).u(32, 0).u(48, 0).u(8, 93).ue(0, 1, 16384, 16384)
    with pytest.raises(BitstreamError, match="16384x16384 is too large"):
        hevc.parse_sps(unit(b"\x42\1", sps))
    header = Writer().u(3, 0).u(1, 1).u(1, 1).u(5, 0).u(4, 13).u(4, 13).u(14, 16383).u(14, 16383)
    with pytest.raises(BitstreamError, match="16384x16384 is too large"):
        av1.parse(header.closed())


def test_a_clock_that_stands_still() -> None:
    """Pins that a frame rate of 0 is none, not a division."""
    assert h264.parse_sps(h264_sps(clock=(0, 50))).fps is None
    assert h264.parse_sps(h264_sps(clock=(1, 0))).fps is None


def test_a_damaged_vui_is_left_out() -> None:
    """Pins an SPS that is cut off in its VUI: what describes the picture is kept."""
    whole = h264_sps(clock=(1, 50), reorder=(2, 4))
    found = h264.parse_sps(whole[:-8])
    assert (found.vui, found.width) == (None, 320)


@pytest.mark.parametrize(
    "data",
    [b"", b"\0", b"\0" * 3_000_000, b"\0\0\1" * 300_000, b"\0\0\1\x67" * 200_000, b"\xff" * 3_000_000, b"\0\0\3" * 300_000],
    ids=["empty", "one", "zeros", "start codes", "headers", "ones", "escapes"],
)
@pytest.mark.parametrize("codec", CODECS)
def test_endless_garbage(codec: Codec, data: bytes) -> None:
    """Pins that megabytes of the same pass in the time that it takes to look at them once."""
    began = time.monotonic()
    Sets(codec).packet(0, None, data)
    assert time.monotonic() - began < LONG_S


def test_a_hundred_thousand_ids() -> None:
    """Pins that a stream of nothing but new sets leaves one for each id of the standard, and takes time in proportion."""
    sets = Sets("h264")
    began = time.monotonic()
    for i in range(2000):
        units_ = [h264_sps(20 + (i + j) % 200, number=j % 32) for j in range(4)]
        data = annex_b(*units_, h264_pps(i % 256, i % 32), h264_slice(i % 256))
        sets.packet(i, i / 25, data)
    assert time.monotonic() - began < 10 * LONG_S
    assert len(sets._known) <= 32 + 256


def test_units_of_another_layer_are_not_ours() -> None:
    """Pins that an HEVC SPS of an enhancement layer replaces no SPS of the base layer."""
    data = raw("hevc")
    at = data.index(b"\0\0\1\x42\1") + 4
    assert [each.kind for each in units("hevc", data[: at - 1] + b"\x42\x09" + data[at + 1 :])][:2] == ["vps", "pps"]


@pytest.mark.parametrize("name", ["77-100-244", "hevc", "h264-hevc"])
@pytest.mark.parametrize("seed", range(8))
def test_damaged_files(name: str, seed: int, tmp_path: Path) -> None:
    """Pins that a file damaged in a hundred places is read to its end, through the demultiplexer and all, in bounded time."""
    dice, data = Random(seed), bytearray(making.path(name).read_bytes()[:400_000])
    for _ in range(100):
        at = dice.randrange(len(data))
        data[at : at + dice.randrange(40)] = dice.randbytes(dice.randrange(40))
    path = tmp_path / "damaged.ts"
    path.write_bytes(data)
    began = time.monotonic()
    with contextlib.suppress(BadRequest):  # where not even the tables at its beginning are left
        assert inspected(videosource.packets(str(path))).packets > 0
    assert time.monotonic() - began < 10 * LONG_S
