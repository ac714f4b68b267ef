"""Video to be decoded: a file, or a camera by RTSP or HTTP, as one row of packets, whatever multiplexes it consists of."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from agent.errors import BadRequest
from agent.linux import tstables
from agent.linux.pyav import library
from agent.linux.videodecoder import MOST_PIXELS
from agent.ports import Packet

TIMEOUT_S = 10.0
_URLS = ("rtsp://", "http://", "https://")
_PROTOCOLS = "rtsp,rtp,tcp,udp,http,https,tls,httpproxy"
_CODECS = {"h264": "h264", "hevc": "hevc", "av1": "av1", "libdav1d": "av1"}
_IN_BAND = frozenset({"mpegts", "h264", "hevc", "obu"})
_OUT_OF_BAND, _AV1C, _AV1C_HEAD = b"\x01", b"\x81", 4
_LOOK, _READ = 8 * tstables.SIZE, 1024 * tstables.SIZE
_STEP_S, _MOST_STEP_S = 0.04, 1.0


class Cut:
    """A transport stream as PyAV reads it: ends where its tables announce other video; `following` begins the next one."""

    def __init__(self, file: BinaryIO) -> None:
        """Take a file that begins with a packet."""
        self._file = file
        self._tables = tstables.Tables()
        self._ready = bytearray()
        self._rest = b""
        self._ended = False

    def read(self, size: int) -> bytes:
        """Give at most `size` bytes, none at an end."""
        if not self._ready and not self._ended:
            self._fill()
        data = bytes(self._ready[:size])
        del self._ready[:size]
        return data

    def following(self) -> bool:
        """Begin what comes after the cut; False if nothing does."""
        found, self._ended = self._ended and bool(self._rest), False
        return found

    def _fill(self) -> None:
        data, self._rest = self._rest or self._file.read(_READ), b""
        for at in range(0, len(data) - tstables.SIZE + 1, tstables.SIZE):
            packet = data[at : at + tstables.SIZE]
            if packet[0] == tstables.SYNC and self._tables.turns(packet):
                self._rest = self._tables.association + data[at:]
                self._ready += data[:at]
                self._ended = True
                return
        self._ready += data


def packets(source: str) -> Iterator[Packet]:
    """Yield the packets of the first video stream. Raises BadRequest for no video of a known codec, and for an untimely end."""
    serial, due = 0, _Due()
    for container in _containers(source):
        with container:
            for packet in _demuxed(container, source, serial, due):
                yield packet
                serial = packet.serial + 1


def _containers(source: str) -> Iterator[Any]:
    if source.startswith(_URLS):
        options = {"protocol_whitelist": _PROTOCOLS, "rtsp_transport": "tcp"}
        yield _opened(source.partition("://")[0], source, options, timeout=TIMEOUT_S)
        return
    path = Path(source)
    if not stat.S_ISREG(path.stat().st_mode):  # a pipe would not even open
        raise BadRequest(f"{source}: no regular file")
    with path.open("rb") as file:
        head = file.read(_LOOK)
        if len(head) < tstables.SIZE or any(head[at] != tstables.SYNC for at in range(0, len(head), tstables.SIZE)):
            yield _opened(source, f"file:{source}", {"protocol_whitelist": "file"})
            return
        file.seek(0)
        cut = Cut(file)
        yield _opened(source, cut, {}, format="mpegts")
        while cut.following():
            yield _opened(source, cut, {}, format="mpegts")


def _opened(name: str, file: Any, options: dict[str, str], **more: Any) -> Any:
    av = library()
    limits = {"max_pixels": str(MOST_PIXELS)}  # for the decoder with which FFmpeg finds out what it is
    try:
        try:
            return av.open(file, container_options=options, stream_options=[limits] * 4, **more)
        except ValueError as error:
            if isinstance(error, av.FFmpegError):
                raise
        # FLV, whose streams are not known when it is opened, takes none.
        return av.open(file, container_options=options, **more)
    except (av.FFmpegError, ValueError, OSError) as error:
        raise BadRequest(f"{name}: no video can be read: {_words(error)}") from error


def _demuxed(container: Any, source: str, serial: int, due: _Due) -> Iterator[Packet]:
    av = library()
    streams = container.streams.video
    named = streams[0].codec_context.name if streams and streams[0].codec_context else ""
    if named not in _CODECS:
        held = f"video is {named}" if named else "there is no video"
        raise BadRequest(f"{_shown(source)}: {held}, allowed: h264, hevc, av1")
    codec, before, filtering = _CODECS[named], *_told(av, container, streams[0])
    try:
        for packet in container.demux(streams[0]):
            for each in _filtered(av, filtering, packet) if packet.size else ():
                pts_s = None if each.pts is None else round(float(each.pts * each.time_base), 6)
                dts_s = pts_s if each.dts is None else float(each.dts * each.time_base)
                data, before = before + bytes(each), b""
                yield Packet(serial, codec, data, packet.is_keyframe, pts_s, due.at(dts_s))
                serial += 1
    except av.FFmpegError as error:
        raise BadRequest(f"{_shown(source)}: reading ends after packet {serial}: {_words(error)}") from error


def _told(av: Any, container: Any, stream: Any) -> tuple[bytes, Any]:
    """Give the parameter sets that come before the first packet, and the filter that puts those of the container into it."""
    codec = _CODECS[stream.codec_context.name]
    extradata = bytes(stream.codec_context.extradata or b"")
    if codec != "av1" and extradata.startswith(_OUT_OF_BAND):
        return b"", av.BitStreamFilterContext(f"{codec}_mp4toannexb", stream)
    if codec == "av1":
        return (extradata[_AV1C_HEAD:] if extradata.startswith(_AV1C) else b""), None
    outside = not _IN_BAND & set(container.format.name.split(","))
    return (extradata if outside else b""), None


def _filtered(av: Any, filtering: Any, packet: Any) -> list[Any]:
    if filtering is None:
        return [packet]
    try:
        return list(filtering.filter(packet))
    except av.FFmpegError:  # damaged: the decoder is to say so
        return [packet]


class _Due:
    """When the time of decoding of each packet comes: stands still or steps where that of the stream runs back or jumps."""

    def __init__(self) -> None:
        self._last_s: float | None = None
        self._due_s = 0.0

    def at(self, dts_s: float | None) -> float:
        """Give it in seconds after the first one."""
        if self._last_s is not None:
            step = _STEP_S if dts_s is None else dts_s - self._last_s
            self._due_s += step if 0 <= step <= _MOST_STEP_S else _STEP_S
        self._last_s = (self._last_s or 0.0) if dts_s is None else dts_s
        return self._due_s


def _shown(source: str) -> str:
    """Give a source without what may be secret in its address."""
    return source.partition("://")[0] if source.startswith(_URLS) else source


def _words(error: Exception) -> str:
    if isinstance(error, library().error.ExitError):
        return f"nothing came within {TIMEOUT_S:g} s"
    return getattr(error, "strerror", None) or str(error)
