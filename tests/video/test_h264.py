"""What of H.264 no encoder here writes, and no oracle here reads: subset SPS, SPS extension; names of profiles and levels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agent.errors import BitstreamError
from agent.video import h264
from tests.video.writing import Writer, h264_slice, h264_sps, unit


def test_subset_sps() -> None:
    """Pins that the SPS in a subset SPS is read, and what scalable or stereo streams have behind it is left alone."""
    subset = bytes([0x6F]) + h264_sps(40, profile=100)[1:] + b"\xaa\xbb"
    found = h264.parse_sps(subset)
    assert h264.kind(subset) == h264.SUBSET_SPS
    assert (found.width, found.profile) == (640, "High")


def test_sps_extension() -> None:
    """Pins the auxiliary pictures of an SPS, and their absence."""
    assert h264.parse_sps_extension(unit(b"\x6d", Writer().ue(3, 1, 2).u(1, 0))) == h264.SpsExtension(3, 1, 2)
    assert h264.parse_sps_extension(unit(b"\x6d", Writer().ue(0, 0).u(1, 0))) == h264.SpsExtension(0, 0, 0)
    with pytest.raises(BitstreamError, match="aux_format_idc is 4"):
        h264.parse_sps_extension(unit(b"\x6d", Writer().ue(0, 4)))


@pytest.mark.parametrize(
    ("profile", "constraints", "name"),
    [
        (66, 0, "Baseline"),
        (66, 0x40, "Constrained Baseline"),
        (77, 0x40, "Main"),
        (88, 0, "Extended"),
        (110, 0x10, "High 10 Intra"),
        (122, 0, "High 4:2:2"),
        (44, 0x10, "CAVLC 4:4:4 Intra"),
        (200, 0, "profile 200"),
    ],
)
def test_profiles(profile: int, constraints: int, name: str) -> None:
    """Pins names by number and constraints (A.2)."""
    assert replace(h264.parse_sps(h264_sps()), profile_idc=profile, constraint_sets=constraints).profile == name


@pytest.mark.parametrize(
    ("profile", "constraints", "level_idc", "level"),
    [
        (77, 0, 31, "3.1"),
        (77, 0x10, 11, "1b"),
        (77, 0, 11, "1.1"),
        (100, 0x10, 11, "1.1"),
        (100, 0, 9, "1b"),
        (77, 0, 62, "6.2"),
    ],
)
def test_levels(profile: int, constraints: int, level_idc: int, level: str) -> None:
    """Pins levels, and the two ways to write 1b (A.3.1, A.3.2)."""
    found = replace(h264.parse_sps(h264_sps()), profile_idc=profile, constraint_sets=constraints, level_idc=level_idc)
    assert found.level == level


@pytest.mark.parametrize(
    ("head", "number"),
    [
        (h264_slice(3), 3),
        (h264_slice(200, idr=False), 200),
        (h264_sps(), None),
        (b"", None),
        (b"\x65", None),
        (b"\x65\0\0\0\0\0\0", None),
    ],
)
def test_what_a_slice_refers_to(head: bytes, number: int | None) -> None:
    """Pins the id of the PPS in a slice, and none for any other unit."""
    assert h264.pps_id_of_slice(head) == number
