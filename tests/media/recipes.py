"""What `make media` makes: each stream is a few parts, encoded apart and joined so that time stamps and counters go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RATE, FRAMES = 25, 50
"""Frames per second, and frames of a part that says nothing else: two seconds."""


@dataclass(frozen=True, slots=True)
class Part:
    """One run of an encoder: `params` are x264's or x265's own, `bitstream` an ffmpeg bitstream filter on what it gives."""

    size: str = "320x180"
    pixels: str = "yuv420p"
    params: str = ""
    profile: str = "high"
    codec: Literal["libx264", "libx265"] = "libx264"
    frames: int = FRAMES
    bitstream: str = ""


@dataclass(frozen=True, slots=True)
class Recipe:
    """A stream: its parts, the time stamp of its first frame, and what is done to its bytes at the end."""

    parts: tuple[Part, ...]
    start_s: float = 10.0
    damage: bool = False
    """Overwrite the payload of some packets in the middle third."""


_66 = Part(profile="baseline")
_77 = Part(profile="main", params="bframes=0")
"""Baseline has no B-frames: without them in what follows, the decoding times go on too."""
_100 = Part(params="bframes=0")
_110 = Part(profile="high10", pixels="yuv420p10le", params="bframes=0")
_244 = Part(profile="high444", pixels="yuv444p", params="bframes=0")
_HEVC = Part(codec="libx265", profile="main")
_LOST = Part(size="640x360", bitstream="filter_units=remove_types=7|8")
"""No SPS and no PPS anywhere in it."""
_WRAP_S = 2**33 / 90_000

RECIPES: dict[str, Recipe] = {
    "77-100-244": Recipe((Part("640x360", profile="main"), Part("1280x720"), Part("1280x720", "yuv444p", profile="high444"))),
    "66-77-100-110-244": Recipe((_66, _77, _100, _110, _244)),
    "size": Recipe((Part(), Part("640x360"), Part("322x182"), Part())),
    "depth": Recipe((_100, _110, _100)),
    "h264-hevc": Recipe((_100, _HEVC)),
    "hevc": Recipe(
        (_HEVC, Part("640x360", codec="libx265", profile="main"), Part(codec="libx265", profile="main10", pixels="yuv420p10le"))
    ),
    "sps-lost": Recipe((_100, _LOST)),
    "corrupt": Recipe((Part(frames=150),), damage=True),
    "b-frames": Recipe((Part(params="bframes=4:b-pyramid=normal:b-adapt=0"), Part("640x360", params="bframes=4:b-adapt=0"))),
    "interlaced": Recipe((Part("320x192", params="tff=1"), Part("320x192"))),
    "open-gop": Recipe(
        (Part(params="open-gop=1:bframes=3:b-adapt=0"), Part("640x360", params="open-gop=1:bframes=3:b-adapt=0"))
    ),
    "flips": Recipe((Part(frames=5), Part("640x360", frames=5)) * 8),
    "wrap": Recipe((Part(frames=100), _77), start_s=_WRAP_S - 2),
}
"""Name of the file in build/media without .ts, to how it is made."""
