"""Where decoded pictures go: nowhere, or raw or as YUV4MPEG2 into a file or pipe."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from agent.errors import BadRequest
from agent.linux import videoplanes, y4m
from agent.ports import Picture

KINDS = ("null", "raw", "y4m")


class Sink:
    """Takes pictures; YUV4MPEG2 wants all of one shape."""

    def __init__(self, text: str) -> None:
        """Read `null`, `raw:PATH` or `y4m:PATH` and open it. Raises BadRequest or OSError."""
        self._kind, _, path = text.partition(":")
        if self._kind not in KINDS or (self._kind == "null") is bool(path):
            raise BadRequest(f"{text[:60]!r} is no output, allowed: null, raw:PATH, y4m:PATH")
        self._file: BinaryIO | None = Path(path).open("wb") if path else None  # noqa: SIM115 - closed by close()
        self._header: y4m.Header | None = None

    def put(self, picture: Picture) -> None:
        """Write one picture. Raises BadRequest for one that YUV4MPEG2 cannot hold, OSError as the file does."""
        if self._file is None:
            return
        if self._kind == "y4m":
            self._file.write(self._frame(picture))
        for part in videoplanes.packed(picture.image):
            self._file.write(part)

    def _frame(self, picture: Picture) -> bytes:
        if picture.pixel_format not in y4m.FORMATS:
            raise BadRequest(f"y4m: there is no {picture.pixel_format} in it, allowed: {', '.join(y4m.FORMATS)}; add --adapt")
        header = y4m.Header(picture.width, picture.height, picture.pixel_format, picture.image.color_range == 2)
        before, self._header = self._header, header
        if before not in {None, header}:
            raise BadRequest("y4m: pictures change their shape; add --adapt")
        return (b"" if before else header.line()) + y4m.FRAME + b"\n"

    def close(self) -> None:
        """Write what is left."""
        if self._file is not None:
            self._file.close()
