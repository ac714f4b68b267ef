"""agentctl video decode on real streams, and on what is none: always an answer, in bounded time and memory."""

from __future__ import annotations

import contextlib
import hashlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.commands.conftest import Box
from tests.media import making
from tests.video.writing import annex_b, h264_pps, h264_slice, h264_sps

pytest.importorskip("av")
KEYS = {
    *("schema", "frames_in", "frames_out", "formats", "output", "corrupt", "switches", "parameter_changes"),
    *("segments_retried", "decoder", "cpu_ms_per_frame"),
}
# In a small process: a child's peak begins with that of whoever it was forked from.
WEIGHED = """import resource, subprocess, sys
code = subprocess.call(sys.argv[1:])
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(code)"""
LONG_S, MOST_KIB = 20.0, 300 * 1024
"""Loading FFmpeg's libraries takes 45 MiB and half a second."""


def decode(box: Box, source: Path | str, *more: str) -> dict[str, Any]:
    """Decode and give the report."""
    done = box.agentctl("video", "decode", str(source), *more, "--json")
    assert done.code == 0, done.err
    return done.json


def shapes(rows: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """Give rows of formats in short."""
    return [(row["from_frame"], f"{row['width']}x{row['height']}:{row['pixel_format']}") for row in rows]


def test_the_incident(box: Box) -> None:
    """Pins the incident: 77 -> 100 -> 244, every frame comes out, and the model sees one shape."""
    found = decode(box, making.path("77-100-244"), "--adapt", "1280x720:yuv444p")
    assert set(found) == KEYS
    assert (found["frames_in"], found["frames_out"], found["corrupt"]) == (150, 150, 0)
    assert shapes(found["formats"]) == [(0, "640x360:yuv420p"), (50, "1280x720:yuv420p"), (100, "1280x720:yuv444p")]
    assert shapes(found["output"]) == [(0, "1280x720:yuv444p")]
    assert (found["parameter_changes"], found["decoder"], found["schema"]) == (2, "libavcodec", "gatewarden.video.decode/1")
    told = [(switch["from"], switch["to"], switch["reason"]) for switch in found["switches"]]
    assert told == [("libavcodec", "libavcodec", "parameter_set")] * 2
    assert all(switch["recovery_ms"] > 0 and switch["at_s"] > 0 for switch in found["switches"])
    assert found["cpu_ms_per_frame"] > 0


def test_the_process_stage_gives_the_same(box: Box) -> None:
    """Pins that an ffmpeg process decodes the same stream without a loss, and that --chain chooses it."""
    found = decode(box, making.path("77-100-244"), "--adapt", "1280x720:yuv444p", "--chain", "ffmpeg")
    assert (found["frames_in"], found["frames_out"], found["decoder"]) == (150, 150, "ffmpeg")
    assert shapes(found["output"]) == [(0, "1280x720:yuv444p")]


@pytest.mark.parametrize(
    ("name", "frames", "changes"),
    [("66-77-100-110-244", 250, 4), ("h264-hevc", 100, 1), ("hevc", 150, 2), ("size", 200, 3), ("wrap", 150, 1)],
)
def test_every_change(box: Box, name: str, frames: int, changes: int) -> None:
    """Pins that other changes cost no frame either, nor do 33 bits that wrap, nor another codec on one PID."""
    found = decode(box, making.path(name), "--adapt", "320x180:yuv420p")
    assert (found["frames_in"], found["frames_out"], found["parameter_changes"]) == (frames, frames, changes)
    assert shapes(found["output"]) == [(0, "320x180:yuv420p")]


@pytest.mark.parametrize(
    ("suffix", "coding", "chain"),
    [
        ("mp4", "libx264", ""),
        ("flv", "libx264", "ffmpeg"),
        ("mkv", "libx265", "ffmpeg"),
        ("mp4", "libsvtav1", ""),
        ("mkv", "libsvtav1", "ffmpeg"),
        ("h264", "libx264", "ffmpeg"),
    ],
)
def test_other_containers(box: Box, suffix: str, coding: str, chain: str) -> None:
    """Pins parameter sets that stand in the container alone, AV1, and a raw stream, by both software stages."""
    source = box.path / f"x.{suffix}"
    making.ffmpeg("-f", "lavfi", "-i", "testsrc2=size=320x180:rate=25", "-frames:v", "30", "-c:v", coding, str(source))
    found = decode(box, source, "--chain", chain)
    assert (found["frames_in"], found["frames_out"], found["corrupt"]) == (30, 30, 0)
    assert found["decoder"] == (chain or {"libsvtav1": "libdav1d"}.get(coding, "libavcodec"))


def test_ctrl_c_ends_with_the_report(box: Box) -> None:
    """Pins that an interrupted run tells what it has seen."""
    command = [sys.executable, "-P", "-m", "agent.cli", "--config", str(box.config), "video", "decode"]
    words = [str(making.path("77-100-244")), "--realtime", "--json"]
    with subprocess.Popen([*command, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        time.sleep(2.5)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    found = json.loads(out)
    assert 0 < found["frames_in"] < 150
    assert found["frames_out"] == found["frames_in"]
    assert b"interrupted" in err


def test_damage_is_counted(box: Box) -> None:
    """Pins that damaged pictures are counted, and that --fail-on turns them into an exit code."""
    found = decode(box, making.path("corrupt"))
    assert found["corrupt"] > 0
    assert box.agentctl("video", "decode", str(making.path("corrupt")), "--fail-on", "degraded").code == 1
    assert box.agentctl("video", "decode", str(making.path("b-frames")), "--fail-on", "degraded").code == 0


def test_raw_output_is_that_of_ffmpeg(box: Box) -> None:
    """Pins the samples bit by bit against the ffmpeg program, padding of odd lines left out."""
    source, out = making.path("wrap"), box.path / "raw"
    decode(box, source, "--out", f"raw:{out}")
    theirs = making.ffmpeg("-i", str(source), "-fps_mode", "passthrough", "-f", "rawvideo", "-")
    assert hashlib.sha256(out.read_bytes()).hexdigest() == hashlib.sha256(theirs).hexdigest()


def test_y4m_output_is_read_by_ffmpeg(box: Box) -> None:
    """Pins that another program reads the YUV4MPEG2: as many frames, of the shape that was asked for."""
    out = box.path / "out.y4m"
    decode(box, making.path("77-100-244"), "--adapt", "322x182:yuv444p", "--out", f"y4m:{out}")
    entries = "stream=width,height,pix_fmt,nb_read_frames,color_range"
    command = ["ffprobe", "-v", "error", "-count_frames", "-show_entries", entries, "-of", "csv=p=0", str(out)]
    told = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    assert told == "322,182,yuv444p,tv,150"


def test_real_time(box: Box) -> None:
    """Pins that --realtime takes as long as the stream lasts, and that the process stage keeps up with it."""
    begun = time.monotonic()
    found = decode(box, making.path("h264-hevc"), "--realtime", "--chain", "libavcodec")
    assert time.monotonic() - begun > 100 / 25 - 0.5
    assert (found["frames_in"], found["frames_out"]) == (100, 100)


def test_time_that_runs_backwards(box: Box) -> None:
    """Pins that time stamps which jump back cost nothing."""
    twice = box.path / "twice.ts"
    twice.write_bytes(making.path("b-frames").read_bytes() * 2)
    found = decode(box, twice, "--chain", "ffmpeg")
    assert (found["frames_in"], found["frames_out"]) == (200, 200)


def test_people_get_a_table(box: Box) -> None:
    """Pins the view for people."""
    done = box.agentctl("video", "decode", str(making.path("77-100-244")), "--adapt", "1280x720:yuv444p")
    assert (done.code, done.err) == (0, "")
    assert "150 of 150 frames, 0 corrupt" in done.out
    assert "1280x720  yuv444p" in done.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--adapt", "1280:yuv420p"), "no WxH:pixel_format"),
        (("--adapt", "99999x720:yuv420p"), "no WxH:pixel_format"),
        (("--adapt", "1280x720:yuv999"), "no pixel format that can be written"),
        (("--adapt", "1280x720:cuda"), "no pixel format that can be written"),
        (("--out", "file:x"), "no output, allowed: null, raw:PATH, y4m:PATH"),
        (("--out", "raw:"), "no output"),
        (("--out", "raw:/nonexistent/x"), "No such file"),
        (("--chain", "libavcodek"), "did you mean libavcodec"),
        (("--chain", "libdav1d"), "decodes h264"),
        (("--out", "y4m:/dev/null", "--chain", "libavcodec"), "change their shape; add --adapt"),
    ],
)
def test_wrong_options(box: Box, options: tuple[str, ...], words: str) -> None:
    """Pins one clear line, and exit code 2."""
    done = box.agentctl("video", "decode", str(making.path("size")), *options)
    assert (done.code, done.out) == (2, "")
    assert words in done.err
    assert done.err.count("\n") == 1


def huge_sps() -> bytes:
    """Give a stream of 16384x16384."""
    return annex_b(h264_sps(1024, 1024), h264_pps(), h264_slice()) * 50


def still_clock() -> bytes:
    """Give a real stream whose SPS says that its frame rate is 0, so far as that can be said."""
    return annex_b(h264_sps(clock=(1, 0)), h264_pps(), h264_slice()) * 50


BAD: dict[str, Callable[[], bytes]] = {
    "empty": bytes,
    "one byte": lambda: b"G",
    "garbage": lambda: Random(1).randbytes(2_000_000),
    "zeros": lambda: bytes(2_000_000),
    "start codes": lambda: b"\0\0\1" * 500_000,
    "sync bytes": lambda: (b"G" + bytes(187)) * 10_000,
    "garbage in packets": lambda: b"".join(b"G" + Random(at).randbytes(187) for at in range(5000)),
    "16k": huge_sps,
    "fps 0": still_clock,
    "many ids": lambda: b"".join(annex_b(h264_sps(20 + at % 50, 12, at % 32), h264_pps(at % 256)) for at in range(20_000)),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input(box: Box, name: str) -> None:
    """Pins that what is no video ends with one line of ours, or without a frame, in bounded time and memory."""
    source = box.path / "bad"
    source.write_bytes(BAD[name]())
    own = [sys.executable, "-P", "-m", "agent.cli", "--config", str(box.config)]
    words = ["video", "decode", str(source), "--fail-on", "critical"]
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", WEIGHED, *own, *words], capture_output=True, text=True, check=False, timeout=60
    )
    err, _, kib = done.stderr.strip().rpartition("\n")
    assert done.returncode in ({0} if name == "fps 0" else {2, 5}), err
    assert done.stdout or err
    assert "Traceback" not in err
    assert time.monotonic() - begun < LONG_S
    assert int(kib) < MOST_KIB


@pytest.mark.parametrize("cut", [0.1, 0.5, 0.9])
def test_truncated(box: Box, cut: float) -> None:
    """Pins that a stream which ends in the middle of a packet gives what is there."""
    whole = making.path("b-frames").read_bytes()
    source = box.path / "cut.ts"
    source.write_bytes(whole[: int(len(whole) * cut) + 77])
    found = decode(box, source)
    assert 0 < found["frames_out"] <= found["frames_in"]


@pytest.mark.parametrize(
    "source", ["/nonexistent", "/dev/zero", "/", "ftp://x/y", "http://127.0.0.1:9/x.ts", "concat:/etc/passwd"]
)
def test_what_cannot_be_opened(box: Box, source: str) -> None:
    """Pins one line and exit code 2 for what is no file, and for what does not answer."""
    done = box.agentctl("video", "decode", source)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)


def test_a_server_that_sends_a_byte_a_second(box: Box) -> None:
    """Pins that a source which hardly sends anything is given up after ten seconds, in words."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        address = f"http://127.0.0.1:{listening.getsockname()[1]}/x.ts"
        threading.Thread(target=_drips, args=(listening,), daemon=True).start()
        begun = time.monotonic()
        done = box.agentctl("video", "decode", address)
    assert (done.code, done.out) == (2, "")
    assert "nothing came within 10 s" in done.err
    assert time.monotonic() - begun < 30


def _drips(listening: socket.socket) -> None:
    """Serve until the other side is gone."""
    with contextlib.suppress(OSError), listening.accept()[0] as client:
        client.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: video/mp2t\r\n\r\n")
        while True:
            client.sendall(b"G")
            time.sleep(1)


def test_secrets_in_addresses_are_not_shown(box: Box) -> None:
    """Pins that user and password of an address stand in no message."""
    done = box.agentctl("video", "decode", "rtsp://admin:hunter2@127.0.0.1:9/cam")
    assert done.code == 2
    assert "hunter2" not in done.err
    assert "admin" not in done.err
