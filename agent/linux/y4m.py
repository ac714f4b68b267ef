"""YUV4MPEG2: raw pictures after one line that says what they are (yuv4mpeg(5) of mjpegtools, and FFmpeg's additions)."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import BitstreamError

MAGIC, FRAME = b"YUV4MPEG2", b"FRAME"
LONGEST_LINE = 256
_TAGS = {
    "yuv420p": "420jpeg",
    "yuv422p": "422",
    "yuv444p": "444",
    "gray": "mono",
    "yuv420p10le": "420p10",
    "yuv422p10le": "422p10",
    "yuv444p10le": "444p10",
    "yuv420p12le": "420p12",
    "yuv422p12le": "422p12",
    "yuv444p12le": "444p12",
    "gray10le": "mono10",
}
FORMATS = tuple(_TAGS)
"""Pixel formats that it knows; those beyond 8 bit are FFmpeg's, as is mono10."""
_PIXELS = {tag: pixels for pixels, tag in _TAGS.items()} | dict.fromkeys(("420", "420mpeg2", "420paldv"), "yuv420p")


@dataclass(frozen=True, slots=True)
class Header:
    """The line before the first picture. `full` is the colour range: 0 .. 255, not 16 .. 235."""

    width: int
    height: int
    pixel_format: str
    full: bool

    def line(self) -> bytes:
        """Write it, for 25 pictures a second with square samples."""
        colours = f"C{_TAGS[self.pixel_format]} XCOLORRANGE={'FULL' if self.full else 'LIMITED'}"
        return f"YUV4MPEG2 W{self.width} H{self.height} F25:1 Ip A1:1 {colours}\n".encode()


def parse(line: bytes, most_pixels: int) -> Header:
    """Read the line. Raises BitstreamError for anything else, and for pictures of more samples than `most_pixels`."""
    words = line.decode("ascii", "replace").split()
    told = {word[0]: word[1:] for word in words[1:] if word[0] != "X"}
    if not words or words[0].encode() != MAGIC or not all(told.get(key, "").isdecimal() for key in "WH"):
        raise BitstreamError(f"no YUV4MPEG2: {line[:40]!r}")
    width, height, pixels = int(told["W"][:9]), int(told["H"][:9]), _PIXELS.get(told.get("C", "420"))
    if pixels is None or not 0 < width * height <= most_pixels:
        raise BitstreamError(f"YUV4MPEG2 of {width}x{height}, C{told.get('C')}: allowed are {', '.join(_PIXELS)}")
    return Header(width, height, pixels, "XCOLORRANGE=FULL" in words)
