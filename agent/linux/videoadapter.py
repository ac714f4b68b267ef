"""The input adapter: whatever a stream turns into, the model sees one size, pixel format, colour range and matrix."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

from agent.errors import BadRequest
from agent.linux.pyav import library
from agent.ports import Picture

_WANTED = re.compile(r"(\d{1,5})x(\d{1,5}):([a-z][a-z0-9]{1,20})")
_LEAST, _MOST = 2, 8192
_KEPT = 8
_MPEG, _JPEG = 1, 2
_MATRICES = {0: 5, 1: 1, 4: 4, 5: 5, 6: 5, 7: 7, 9: 9}
"""Matrix of a frame (H.273 table 4, of which 2 is unknown) to swscale's."""
_HD_LINES = 720


@dataclass(frozen=True, slots=True)
class Shape:
    """What comes out."""

    width: int
    height: int
    pixel_format: str


def shape(text: str) -> Shape:
    """Read `1280x720:yuv444p`. Raises BadRequest."""
    found = _WANTED.fullmatch(text)
    if found is None or not all(_LEAST <= int(side) <= _MOST for side in found.groups()[:2]):
        raise BadRequest(
            f"{text[:60]!r} is no WxH:pixel_format, allowed: {_LEAST} .. {_MOST} and FFmpeg's names, as 1280x720:yuv420p"
        )
    av = library()
    try:
        av.VideoFormat(found[3])
        av.VideoFrame(16, 16, found[3]).reformat(format="yuv420p")
    except (ValueError, av.FFmpegError) as error:
        raise BadRequest(f"{found[3]!r} is no pixel format that can be written, as yuv420p, yuv444p, nv12, rgb24") from error
    return Shape(int(found[1]), int(found[2]), found[3])


class Adapter:
    """Limited range, the matrix of BT.709. One reformatter for each source, which keeps its tables: the last eight sources."""

    def __init__(self, wanted: Shape) -> None:
        self._wanted = wanted
        self._reformatters: OrderedDict[tuple[Any, ...], Any] = OrderedDict()

    def adapted(self, picture: Picture) -> Picture:
        """Give the picture as it is wanted."""
        wanted, frame = self._wanted, picture.image
        source = (frame.width, frame.height, frame.format.name, int(frame.color_range), int(frame.colorspace))
        image = self._reformatter(source).reformat(
            frame,
            wanted.width,
            wanted.height,
            wanted.pixel_format,
            src_colorspace=_matrix(frame),
            dst_colorspace="itu709",
            interpolation="BILINEAR",
            src_color_range=_JPEG if _full(frame) else _MPEG,
            dst_color_range=_MPEG,
        )
        return Picture(picture.serial, image.width, image.height, image.format.name, picture.corrupt, image)

    def _reformatter(self, source: tuple[Any, ...]) -> Any:
        found = self._reformatters.pop(source, None)
        if found is None:
            found = library().video.reformatter.VideoReformatter()
            if len(self._reformatters) == _KEPT:
                self._reformatters.popitem(last=False)
        self._reformatters[source] = found
        return found


def _full(frame: Any) -> bool:
    return bool(frame.color_range == _JPEG or frame.format.name.startswith("yuvj"))


def _matrix(frame: Any) -> int:
    """Give swscale's number of the matrix; a stream that does not say is taken as all players take it, by its lines."""
    told = _MATRICES.get(int(frame.colorspace))
    return told if told is not None else 1 if frame.height >= _HD_LINES else 5
