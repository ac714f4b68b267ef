"""Video files by PyAV: demultiplexed, not decoded. PyAV (FFmpeg's libraries) is imported only when a file is opened."""

from __future__ import annotations

import importlib
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.errors import BadRequest, Unsupported

_TIMEOUT_S = 10.0
_CODECS = ("h264", "hevc", "av1")
_OUT_OF_BAND, _AV1C, _AV1C_HEAD = b"\x01", b"\x81", 4


@dataclass(frozen=True, slots=True)
class Packet:
    """One packet of the first video stream, in the order of decoding: Annex B (also out of MP4 or FLV), or AV1's OBUs."""

    index: int
    pts_s: float | None
    data: bytes
    sets: bytes
    """The parameter sets in it, as FFmpeg's filter `extract_extradata` finds them."""


@dataclass(frozen=True, slots=True)
class VideoFile:
    """An open file: `codec` as the container names it, and its packets, to be read once.

    Reading raises BadRequest where the file ends in the middle of something.
    """

    codec: str
    packets: Iterator[Packet]


def library() -> Any:
    """Give PyAV. Raises Unsupported where it is not installed."""
    try:
        return importlib.import_module("av")
    except ImportError as error:
        raise Unsupported("video cannot be read: PyAV is missing", "pip install 'gatewarden[video]'") from error


def opened(path: Path) -> VideoFile:
    """Open a file. Raises OSError, or BadRequest for what is no video of H.264, HEVC or AV1."""
    av = library()
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe or a device may never end
        raise BadRequest(f"{path}: this is no file")
    path.open("rb").close()  # the usual words for one that may not be read
    try:
        # Lists of other files (HLS, concat) must not make it open anything else than files.
        container = av.open(f"file:{path}", timeout=_TIMEOUT_S, container_options={"protocol_whitelist": "file"})
    except (av.FFmpegError, ValueError) as error:
        raise BadRequest(f"{path}: no video can be read: {_words(error)}") from error
    streams = container.streams.video
    codec = streams[0].codec_context.name if streams and streams[0].codec_context else ""
    codec = {"libdav1d": "av1"}.get(codec, codec)
    if codec not in _CODECS:
        container.close()
        held = f"video is {codec}" if codec else "there is no video"
        raise BadRequest(f"{path}: {held}, allowed: {', '.join(_CODECS)}")
    return VideoFile(codec, _packets(av, container, path, codec))


def _packets(av: Any, container: Any, path: Path, codec: str) -> Iterator[Packet]:
    stream = container.streams.video[0]
    extradata = bytes(stream.codec_context.extradata or b"")
    filters = "extract_extradata"
    if codec != "av1" and extradata.startswith(_OUT_OF_BAND):
        filters = f"{codec}_mp4toannexb,{filters}"
    extracting = av.BitStreamFilterContext(filters, stream)
    before = extradata[_AV1C_HEAD:] if extradata.startswith(_AV1C) else b""
    index = 0
    with container:
        try:
            for packet in container.demux(stream):
                if packet.size:
                    yield _packet(av, extracting, index, packet, before)
                    index, before = index + 1, b""
        except av.FFmpegError as error:
            raise BadRequest(f"{path}: reading ends after packet {index}: {_words(error)}") from error


def _packet(av: Any, extracting: Any, index: int, packet: Any, before: bytes) -> Packet:
    pts_s = None if packet.pts is None else round(float(packet.pts * packet.time_base), 6)
    data = bytes(packet)
    try:
        filtered = extracting.filter(packet)
    except av.FFmpegError:  # a damaged packet: what can be found in it will be
        return Packet(index, pts_s, data, before)
    found = b"".join(bytes(item) for each in filtered for item in each.iter_sidedata() if item.data_type == "new_extradata")
    return Packet(index, pts_s, b"".join(map(bytes, filtered)), before + found)


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)
