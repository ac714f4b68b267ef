"""`agentctl video inspect` on real files, on files that are none, and without PyAV."""

from __future__ import annotations

import json
import os
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from agent.commands import _schemas
from agent.commands._video_shapes import SHAPES
from tests.commands.conftest import Box
from tests.media import making
from tests.media.making import ffmpeg
from tests.video.encoded import encode
from tests.video.writing import annex_b, h264_pps, h264_slice, h264_sps


def inspect(box: Box, path: Path) -> dict[str, Any]:
    """Inspect a file and hold the report against its published schema: every key named, none missing."""
    ran = box.agentctl("video", "inspect", str(path), "--json")
    assert ran.code == 0, ran.err
    shape: Any = TypeAdapter(_schemas._readable(SHAPES["video.inspect"]))
    found = ran.json
    assert shape.validate_json(json.dumps(found), strict=True) == found
    return found


def changes(found: dict[str, Any]) -> list[tuple[int, str]]:
    """Give packet and class of each change."""
    return [(row["packet"], row["class"]) for row in found["changes"]]


def test_the_incident(box: Box) -> None:
    """Pins the report of 77 -> 100 -> 244: sets with their pictures, and a change where each is active first."""
    found = inspect(box, making.path("77-100-244"))
    assert (found["codec"], found["packets"], found["state"]) == ("h264", 150, "degraded")
    spss = [row for row in found["parameter_sets"] if row["kind"] == "sps"]
    assert [(row["packet"], row["pts_s"], row["profile_idc"]) for row in spss] == [
        (0, 10.0, 77),
        (50, 12.0, 100),
        (100, 14.0, 244),
    ]
    assert [(row["width"], row["height"], row["chroma_format"]) for row in spss] == [
        (640, 360, "4:2:0"),
        (1280, 720, "4:2:0"),
        (1280, 720, "4:4:4"),
    ]
    assert {(row["bit_depth"], row["fps"], row["id"]) for row in spss} == {(8, 25.0, 0)}
    assert all("width" not in row for row in found["parameter_sets"] if row["kind"] == "pps")
    assert changes(found) == [(50, "format"), (100, "format")]
    first, second = found["changes"]
    assert (first["to"]["sha256"], second["to"]["profile"]) == (spss[1]["sha256"], "High 4:4:4 Predictive")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("66-77-100-110-244", [(50, "format"), (100, "format"), (150, "format"), (200, "format")]),
        ("size", [(50, "format"), (100, "format"), (150, "format")]),
        ("depth", [(50, "format"), (100, "format")]),
        ("hevc", [(50, "format"), (100, "format")]),
        ("sps-lost", []),
        ("b-frames", [(50, "format")]),
        ("interlaced", [(50, "format")]),
        ("open-gop", [(50, "format")]),
        ("flips", [(packet, "format") for packet in range(5, 80, 5)]),
        ("wrap", [(100, "format")]),
    ],
)
def test_the_changes_of_real_streams(box: Box, name: str, expected: list[tuple[int, str]]) -> None:
    """Pins where each stream of `make media` changes, and how."""
    found = inspect(box, making.path(name))
    assert changes(found) == expected
    assert found["damaged"] == []
    assert found["state"] == ("degraded" if expected else "ok")


def test_another_codec_on_one_pid(box: Box) -> None:
    """Pins H.264 to HEVC, which the demultiplexer does not notice: told as a change of codec at the right time."""
    found = inspect(box, making.path("h264-hevc"))
    (row,) = found["changes"]
    assert (row["class"], row["from"]["codec"], row["to"]["codec"]) == ("codec", "h264", "hevc")
    assert (row["packet"], row["pts_s"]) == (50, 12.0)
    assert [kind for kind, _rows in groupby(row["kind"] for row in found["parameter_sets"])] == [
        "sps",
        "pps",
        "vps",
        "sps",
        "pps",
    ]


@pytest.mark.parametrize("form", ["mp4", "flv", "matroska", "mpegts"])
def test_containers(box: Box, form: str, tmp_path: Path) -> None:
    """Pins that sets outside of the packets (avcC) are found as those in them are."""
    (tmp_path / "raw.h264").write_bytes(encode("h264", "", "322x182"))
    path = tmp_path / f"video.{form}"
    ffmpeg("-i", str(tmp_path / "raw.h264"), "-c", "copy", "-f", form, str(path))
    found = inspect(box, path)
    assert [(row["kind"], row["packet"]) for row in found["parameter_sets"]] == [("sps", 0), ("pps", 0)]
    assert (found["parameter_sets"][0]["width"], found["parameter_sets"][0]["height"]) == (322, 182)
    assert (found["state"], found["packets"], found["changes"]) == ("ok", 3, [])


@pytest.mark.parametrize("form", ["obu", "ivf", "mp4"])
def test_av1(box: Box, form: str, tmp_path: Path) -> None:
    """Pins the sequence header of AV1, in every container."""
    (tmp_path / "raw.obu").write_bytes(encode("av1", "", "322x182"))
    path = tmp_path / f"video.{form}"
    ffmpeg("-i", str(tmp_path / "raw.obu"), "-c", "copy", "-f", form, str(path))
    found = inspect(box, path)
    (row,) = found["parameter_sets"]
    assert (row["kind"], row["width"], row["height"], row["profile"], found["state"]) == (
        "sequence_header",
        322,
        182,
        "Main",
        "ok",
    )


def test_fail_on(box: Box) -> None:
    """Pins that findings are no failure of the command, unless they are asked to be."""
    path = str(making.path("depth"))
    assert [
        box.agentctl("video", "inspect", path, *more).code
        for more in ((), ("--fail-on", "critical"), ("--fail-on", "degraded"))
    ] == [0, 0, 1]


def test_people(box: Box) -> None:
    """Pins the tables for people."""
    ran = box.agentctl("video", "inspect", str(making.path("depth")))
    assert ran.out.startswith("degraded  h264, 150 packets\n")
    assert "High 320x180" in ran.out
    assert "bit_depth_luma_minus8" in ran.out


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "no video can be read"),
        (b"\0", "no video can be read"),
        (b"#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:1/x.ts\n", "no video"),
        (os.urandom(300_000), "no video"),
    ],
    ids=["empty", "one byte", "a list of others", "garbage"],
)
def test_what_is_no_video(box: Box, tmp_path: Path, data: bytes, words: str) -> None:
    """Pins one line and exit code 2 for a file that holds no video."""
    path = tmp_path / "x.ts"
    path.write_bytes(data)
    ran = box.agentctl("video", "inspect", str(path), "--json")
    assert (ran.code, ran.out) == (2, "")
    assert words in ran.err
    assert ran.err.count("\n") == 1


def test_files_that_are_not_there(box: Box, tmp_path: Path) -> None:
    """Pins the system's words for a file that cannot be opened, and a folder."""
    assert "No such file" in box.agentctl("video", "inspect", str(tmp_path / "none.ts")).err
    assert "no regular file" in box.agentctl("video", "inspect", str(tmp_path)).err
    os.mkfifo(tmp_path / "pipe")
    assert box.agentctl("video", "inspect", str(tmp_path / "pipe")).code == 2


def test_sound_alone(box: Box, tmp_path: Path) -> None:
    """Pins a file with sound and no picture, and a picture of another codec."""
    sound, other = tmp_path / "sound.ts", tmp_path / "other.ts"
    ffmpeg("-f", "lavfi", "-i", "sine=duration=1", "-c:a", "mp2", str(sound))
    ffmpeg("-f", "lavfi", "-i", "testsrc2=size=64x64:duration=0.2", "-c:v", "mpeg2video", str(other))
    assert "there is no video" in box.agentctl("video", "inspect", str(sound)).err
    assert "video is mpeg2video, allowed: h264, hevc, av1" in box.agentctl("video", "inspect", str(other)).err


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_truncated_files(box: Box, tmp_path: Path, share: float) -> None:
    """Pins a file that ends anywhere: what came before is told."""
    whole = making.path("depth").read_bytes()
    path = tmp_path / "cut.ts"
    path.write_bytes(whole[: int(len(whole) * share)])
    found = inspect(box, path)
    assert 0 < found["packets"] < 150


def test_damage_is_told(box: Box, tmp_path: Path) -> None:
    """Pins a picture of 16384x16384 and a set that is cut off: rows of damage, no picture, no memory for them."""
    path = tmp_path / "bad.h264"
    good = (h264_sps(), h264_pps(), h264_slice())
    path.write_bytes(annex_b(b"\x09\x10", *good, b"\x09\x10", h264_sps(1024, 1024), h264_slice(), b"\x09\x10", *good))
    found = inspect(box, path)
    assert (found["state"], len(found["damaged"])) == ("degraded", 1)
    assert "16384x16384 is too large" in found["damaged"][0]["what"]


def test_a_camera_that_never_sends_an_sps(box: Box, tmp_path: Path) -> None:
    """Pins that pictures without parameter sets are critical, with the reason."""
    path = tmp_path / "none.h264"
    path.write_bytes(annex_b(*(unit for _ in range(50) for unit in (b"\x09\x10", h264_slice()))))
    found = inspect(box, path)
    assert (found["state"], found["parameter_sets"]) == ("critical", [])
    assert "nothing can be decoded" in found["damaged"][0]["what"]


def test_without_pyav(box: Box, tmp_path: Path) -> None:
    """Pins what is said, and exit code 4, where PyAV is not installed."""
    (tmp_path / "av.py").write_text("raise ImportError\n")
    ran = box.agentctl(
        "video", "inspect", str(making.path("depth")), PYTHONPATH=os.pathsep.join((str(tmp_path), *filter(None, sys.path)))
    )
    assert (ran.code, ran.err) == (4, "agentctl: video cannot be read: PyAV is missing; pip install 'gatewarden[video]'\n")
