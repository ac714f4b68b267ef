"""Small streams of many kinds, each made once by a real encoder, with what ffmpeg itself reads in their headers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.media.making import ffmpeg

_LINE = re.compile(r"^\[trace_headers @ \w+\] (?:\d+ +(\S+) +[01]* = (-?\d+)|(\D.*))$", re.MULTILINE)
BLOCKS = {
    "Sequence Parameter Set": "sps",
    "Picture Parameter Set": "pps",
    "Video Parameter Set": "vps",
    "Sequence Header": "sequence_header",
}


@dataclass(frozen=True)
class Block:
    """One parameter set as `trace_headers` tells it: every syntax element by name."""

    kind: str
    elements: dict[str, int] = field(default_factory=dict)
    order: list[tuple[str, int]] = field(default_factory=list)
    """The same as they come: some stand several times in it."""


@cache
def encode(codec: str, options: str, size: str = "64x64", pixels: str = "yuv420p", more: str = "") -> bytes:
    """Give three frames as a raw stream; `options` are the encoder's own, `more` are ffmpeg's."""
    encoder, form, own, always = {
        "h264": ("libx264", "h264", "-x264-params", "threads=1:repeat-headers=1"),
        "hevc": ("libx265", "hevc", "-x265-params", "log-level=none:pools=1:frame-threads=1:repeat-headers=1"),
        "av1": ("libsvtav1", "obu", "-svtav1-params", "lp=1"),
        "aom": ("libaom-av1", "obu", "-aom-params", ""),
    }[codec]
    quick = {"av1": ("-preset", "12"), "aom": ("-cpu-used", "8", "-usage", "realtime")}.get(codec, ("-preset", "ultrafast"))
    params = ":".join(filter(None, (always, options)))
    return ffmpeg(
        *("-f", "lavfi", "-i", f"testsrc2=size={size}:rate=25", "-frames:v", "3", "-pix_fmt", pixels, "-c:v", encoder),
        *(*quick, *more.split(), *((own, params) if params else ()), "-f", form, "-"),
    )


def traced(data: bytes, form: str, folder: Path) -> Iterator[Block]:
    """Yield the parameter sets of a raw stream in the order of its packets, read by ffmpeg's `trace_headers`."""
    path = folder / f"traced.{form}"
    path.write_bytes(data)
    command = [
        "ffmpeg",
        "-hide_banner",
        "-nostdin",
        "-i",
        str(path),
        "-c",
        "copy",
        "-bsf:v",
        "trace_headers",
        "-f",
        "null",
        "-",
    ]
    text = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False, timeout=60).stderr
    packets = text.partition("] Packet: ")[2]
    block: Block | None = None
    for name, value, title in _LINE.findall(packets):
        if title:
            if block:
                yield block
            block = Block(BLOCKS[title]) if title in BLOCKS else None
        elif block:
            block.elements[name] = int(value)
            block.order.append((name, int(value)))
    if block:
        yield block


def probed(data: bytes, form: str, folder: Path) -> dict[str, str]:
    """Give what `ffprobe` says of the stream."""
    path = folder / f"probed.{form}"
    path.write_bytes(data)
    entries = "stream=profile,level,width,height,pix_fmt,field_order,has_b_frames"
    command = ["ffprobe", "-v", "error", "-show_entries", entries, "-of", "default=noprint_wrappers=1", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return dict(line.split("=", 1) for line in done.splitlines() if "=" in line)
