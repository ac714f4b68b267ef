"""What all codecs say of their pictures: size, chroma, depth; and the largest picture that is looked at further."""

from __future__ import annotations

from agent.errors import BitstreamError

MOST_SAMPLES = 35_651_584
"""Luma samples of the largest picture of level 6.2 (H.264 A.3.1: 139,264 macroblocks; HEVC and AV1 the same)."""
CHROMA = ("4:0:0", "4:2:0", "4:2:2", "4:4:4")
"""Names of chroma_format_idc 0 .. 3."""
_SUBSAMPLING = ((1, 1), (2, 2), (2, 1), (1, 1))


def subsampling(chroma_format_idc: int) -> tuple[int, int]:
    """Give SubWidthC and SubHeightC, 1 without chroma."""
    return _SUBSAMPLING[chroma_format_idc]


def bounded(width: int, height: int) -> None:
    """Raise BitstreamError for a picture above MOST_SAMPLES, before anybody reserves memory for it."""
    if width * height > MOST_SAMPLES:
        raise BitstreamError(f"a picture of {width}x{height} is too large, allowed: {MOST_SAMPLES} samples (level 6.2)")


def cropped(name: str, length: int, before: int, after: int) -> int:
    """Give what a crop leaves of a length. Raises BitstreamError if that is nothing."""
    left = length - before - after
    if left <= 0:
        raise BitstreamError(f"the crop takes {before} + {after} of a {name} of {length}: nothing is left")
    return left


def rate(time_scale: int, ticks: int) -> float | None:
    """Give frames per second, None for a clock that stands still."""
    return round(time_scale / ticks, 3) if time_scale and ticks else None
