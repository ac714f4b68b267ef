"""Makes the streams of the recipes with ffmpeg, each once: a file says by its hash which recipe it came from."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
from pathlib import Path

from tests.media import transport
from tests.media.recipes import RATE, RECIPES, Part, Recipe

BUILD = Path(__file__).parents[2] / "build" / "media"
_SOURCES = tuple(Path(__file__).parent / name for name in ("making.py", "recipes.py", "transport.py"))
_LIMIT_S = 120.0
_VIDEO_PID, _DAMAGED_1_IN = 0x100, 12


def path(name: str, folder: Path = BUILD) -> Path:
    """Give the file of a stream out of RECIPES, made now unless it is there already."""
    made = folder / f"{name}.ts"
    stamp = folder / f".{name}"
    recipe = hashlib.sha256(b"".join(source.read_bytes() for source in _SOURCES)).hexdigest()
    if not (made.exists() and stamp.exists() and stamp.read_text() == recipe):
        folder.mkdir(parents=True, exist_ok=True)
        _written(made, stream(RECIPES[name]))
        _written(stamp, recipe.encode())
    return made


def _written(path: Path, data: bytes) -> None:
    """Write a file at once: others may be making it too."""
    part = path.with_suffix(f".{os.getpid()}")
    part.write_bytes(data)
    part.replace(path)


def stream(recipe: Recipe) -> bytes:
    """Give the bytes of one stream."""
    parts, start = [], recipe.start_s
    for version, part in enumerate(recipe.parts):
        parts.append(_encoded(part, start, version % 32))
        start += part.frames / RATE
    whole = transport.joined(parts)
    return _damaged(whole) if recipe.damage else whole


def _encoded(part: Part, start_s: float, version: int) -> bytes:
    """Give one part as a multiplex that starts at `start_s`; `version` is that of its tables, so that a change is seen."""
    own = "x264-params" if part.codec == "libx264" else "x265-params"
    always = (
        "keyint=25:aud=1:repeat-headers=1:threads=1"
        if own == "x264-params"
        else ("keyint=25:aud=1:repeat-headers=1:pools=1:frame-threads=1:log-level=none")
    )
    return ffmpeg(
        *("-f", "lavfi", "-i", f"testsrc2=size={part.size}:rate={RATE}"),
        *("-frames:v", str(part.frames), "-pix_fmt", part.pixels, "-c:v", part.codec, "-preset", "veryfast"),
        *("-profile:v", part.profile, f"-{own}", ":".join(filter(None, (always, part.params)))),
        *(("-bsf:v", part.bitstream) if part.bitstream else ()),
        *("-muxdelay", "0", "-muxpreload", "0", "-output_ts_offset", f"{start_s:.6f}", "-tables_version", str(version)),
        *("-f", "mpegts", "-"),
    )


def _damaged(whole: bytes) -> bytes:
    stream, dice = bytearray(whole), random.Random(5)
    found = [packet for packet in transport.packets(stream) if transport.pid(packet) == _VIDEO_PID]
    for packet in found[len(found) // 3 : 2 * len(found) // 3]:
        if not dice.randrange(_DAMAGED_1_IN):
            packet[60:] = dice.randbytes(transport.SIZE - 60)
    return bytes(stream)


def ffmpeg(*arguments: str) -> bytes:
    """Run ffmpeg and give what it writes to its standard output. Raises CalledProcessError, with its words in `stderr`."""
    command = ("ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", *arguments)
    return subprocess.run(command, capture_output=True, check=True, timeout=_LIMIT_S).stdout
