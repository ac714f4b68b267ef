"""Which change is of which class, set against set."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.video import h264
from agent.video.change import CLASSES, differing, graded
from agent.video.reading import Codec, Record, Sequence
from tests.video.encoded import encode
from tests.video.test_oracle import records
from tests.video.writing import h264_sps

BASE = h264_sps(profile=100)
TABLE = [
    ("identical", BASE),
    ("cosmetic", h264_sps(profile=100, clock=(1, 50))),
    ("cosmetic", h264_sps(profile=100, clock=(0, 0))),
    ("cosmetic", h264_sps(profile=100, number=3)),
    ("buffering", h264_sps(profile=100, references=5)),
    ("buffering", h264_sps(profile=100, level=31)),
    ("buffering", h264_sps(profile=100, reorder=(2, 4))),
    ("format", h264_sps(21, profile=100)),
    ("format", h264_sps(20, 13, profile=100)),
    ("format", h264_sps(profile=100, crop=(0, 1, 0, 0))),
    ("format", h264_sps(profile=77)),
    ("format", h264_sps(profile=244, chroma=3)),
    ("format", h264_sps(profile=100, chroma=0)),
]


@pytest.mark.parametrize(("grade", "new"), TABLE)
def test_the_classes_of_h264(grade: str, new: bytes) -> None:
    """Pins the class of a change in each group of fields, in both directions."""
    old, found = h264.parse_sps(BASE), h264.parse_sps(new)
    assert graded(differing(old, found)) == grade
    assert graded(differing(found, old)) == grade


def sequence(codec: Codec, options: str = "", size: str = "64x64", pixels: str = "yuv420p", more: str = "") -> Record:
    """Encode, and give what describes the pictures."""
    found = records(codec, encode(codec, options, size, pixels, more))
    return next(record for _unit, record in found if isinstance(record, Sequence))


@pytest.mark.parametrize(
    ("codec", "grade", "options", "size", "pixels"),
    [
        ("h264", "cosmetic", "overscan=show:8x8dct=1", "64x64", "yuv420p"),
        ("h264", "format", "interlaced=1:8x8dct=1", "64x64", "yuv420p"),
        ("hevc", "identical", "", "64x64", "yuv420p"),
        ("hevc", "cosmetic", "scaling-list=default", "64x64", "yuv420p"),
        ("hevc", "cosmetic", "range=full", "64x64", "yuv420p"),
        ("hevc", "buffering", "ref=5", "64x64", "yuv420p"),
        ("hevc", "buffering", "level-idc=5", "64x64", "yuv420p"),
        ("hevc", "format", "", "66x64", "yuv420p"),
        ("hevc", "format", "", "64x64", "yuv420p10le"),
        ("hevc", "format", "", "64x64", "yuv444p"),
        ("av1", "identical", "", "64x64", "yuv420p"),
        ("av1", "cosmetic", "enable-restoration=0:film-grain=8", "64x64", "yuv420p"),
        ("av1", "format", "", "128x64", "yuv420p"),
        ("av1", "format", "", "64x64", "yuv420p10le"),
    ],
)
def test_the_classes_of_real_encoders(codec: Codec, grade: str, options: str, size: str, pixels: str) -> None:
    """Pins the class of what an encoder's options change, against its default."""
    base = sequence(codec, "8x8dct=1" if codec == "h264" else "")
    new = sequence(codec, options, size, pixels)
    assert graded(differing(base, new)) == grade


def test_a_profile_is_more_than_its_number() -> None:
    """Pins that a constraint flag which makes another profile of it is a format, and any other one is not."""
    base = replace(h264.parse_sps(h264_sps(profile=77)), profile_idc=66)
    assert graded(differing(base, replace(base, constraint_sets=0x40))) == "format"
    assert graded(differing(base, replace(base, constraint_sets=0x20))) == "cosmetic"


def test_an_absent_vui_is_one_of_inferred_values() -> None:
    """Pins that only what the new VUI says is told as changed."""
    old, new = (h264.parse_sps(h264_sps(clock=clock)) for clock in (None, (1, 50)))
    assert set(differing(old, new)) == {"num_units_in_tick", "time_scale", "fixed_frame_rate_flag"}
    assert CLASSES.index(graded(())) == 0
