"""Decoding by an ffmpeg process: what it does to itself cannot harm this one, and it has drivers that PyAV has not (VAAPI).

It gets packets in NUT, which keeps them apart, so that it need not wait for the next one to see where one ends; what it gives
is YUV4MPEG2, whose header says what the pictures are. `-fflags nobuffer` would drop the packets that it probed, with them the
first random-access point. It numbers nothing: pictures come in the order of presentation, so the next one is that of the
waiting packet with the smallest time stamp. Where a damaged packet gives none, the numbers are off by one until it is opened
anew.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import select
import subprocess
import time
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from agent.errors import BitstreamError, DecoderFailed
from agent.linux import tool, videoplanes, y4m
from agent.linux.pyav import library
from agent.linux.videodecoder import MOST_PIXELS
from agent.ports import Packet, Picture

PATIENCE_S = 2.0
"""Without a byte in either direction, while it is to take or to give some."""
_PIPE, _CHUNK = 2**20, 2**20
_JUMP_S = 10.0
_ENDED_S = 5.0
_INPUT = (
    "-threads",
    "2",
    "-thread_type",
    "slice",
    "-probesize",
    "32",
    "-analyzeduration",
    "0",
    "-max_pixels",
    str(MOST_PIXELS),
)
_OUTPUT = ("-map", "0:v:0", "-vf", "setpts=N", "-fps_mode", "passthrough", "-f", "yuv4mpegpipe", "-strict", "-1", "pipe:1")


class Order:
    """Which packet a picture belongs to, by the order of presentation."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, float, int]] = []
        self._epoch, self._last = 0, 0.0

    def add(self, packet: Packet) -> None:
        """Wait for the picture of a packet; where time jumps (33-bit wrap, another camera), everything before goes first."""
        stamp = self._last + 1e-6 if packet.pts_s is None else packet.pts_s
        if abs(stamp - self._last) > _JUMP_S:
            self._epoch += 1
        self._last = stamp
        heapq.heappush(self._waiting, (self._epoch, stamp, packet.serial))

    @property
    def empty(self) -> bool:
        """Whether every packet has its picture."""
        return not self._waiting

    def next(self) -> int:
        """Give the packet of the next picture, -1 if none is left."""
        return heapq.heappop(self._waiting)[2] if self._waiting else -1


class ProcessDecoder:
    """`ports.Decoder` on an ffmpeg of its own, for one format. Raises DecoderFailed (absent) if there is none."""

    def __init__(self, codec: str, path: str = tool.PATH) -> None:
        """Start it."""
        program = tool.find("ffmpeg", path)
        if program is None:
            raise DecoderFailed("absent", f"ffmpeg is not installed, looked in {path}", final=True)
        command = [program, "-hide_banner", "-loglevel", "quiet", "-nostdin", *_INPUT, "-f", "nut", "-i", "pipe:0", *_OUTPUT]
        self._child = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # Ctrl-C is for us, we end it
        )
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._stdin, self._stdout = self._child.stdin, self._child.stdout
        for pipe in (self._stdin, self._stdout):
            os.set_blocking(pipe.fileno(), False)
            fcntl.fcntl(pipe.fileno(), fcntl.F_SETPIPE_SZ, _PIPE)
        self._muxer = _Muxer(codec)
        self._pictures = _Pictures(Order())
        self._ended = self._drained = False

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._child.pid

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Hand it over, give what has come back."""
        self._pictures.order.add(packet)
        self._muxer.packet(packet)
        return self._pump(to_the_end=False)

    def collect(self) -> Sequence[Picture]:
        """Give what has come back."""
        return self._pump(to_the_end=False)

    def drain(self) -> Sequence[Picture]:
        """Close its input and wait for the rest."""
        if self._drained:
            return ()
        self._drained = True
        self._muxer.close()
        return self._pump(to_the_end=True)

    def close(self) -> None:
        """End it."""
        self._child.kill()
        self._child.wait(_ENDED_S)
        for pipe in (self._stdin, self._stdout):
            pipe.close()

    def _pump(self, *, to_the_end: bool) -> Sequence[Picture]:
        """Write what is to be written, read what is there (or all, after which nothing can be written)."""
        found: list[Picture] = []
        deadline = time.monotonic() + PATIENCE_S
        while True:
            wants = bool(self._muxer.out)
            if to_the_end and not wants and not self._stdin.closed:
                self._stdin.close()
            moved = self._moved(found, wait=wants or to_the_end)
            if to_the_end and self._pictures.order.empty:
                return found  # its end may take it a second more
            if self._ended:
                return self._last_words(found, to_the_end=to_the_end)
            if moved:
                deadline = time.monotonic() + PATIENCE_S
            elif not wants and not to_the_end:
                return found
            elif time.monotonic() > deadline:
                raise DecoderFailed("hang", f"ffmpeg neither reads nor writes for {PATIENCE_S:g} s", final=True)

    def _moved(self, found: list[Picture], *, wait: bool) -> bool:
        """Move bytes once, in either direction; tell whether there were any."""
        poll = select.poll()
        poll.register(self._stdout, select.POLLIN)
        if self._muxer.out:
            poll.register(self._stdin, select.POLLOUT)
        events = dict(poll.poll(100 if wait else 0))
        moved = False
        if self._muxer.out and self._stdin.fileno() in events:
            moved |= self._wrote()
        if self._stdout.fileno() in events:
            data = os.read(self._stdout.fileno(), _CHUNK)
            self._ended = not data
            try:
                found += self._pictures.fed(data)
            except BitstreamError as error:
                raise DecoderFailed("dead", f"ffmpeg: {error}", final=True) from error
            moved |= bool(data)
        return moved

    def _wrote(self) -> bool:
        try:
            count = os.write(self._stdin.fileno(), self._muxer.out)
        except BlockingIOError:
            return False
        except OSError as error:
            raise DecoderFailed("dead", f"ffmpeg takes nothing any longer: {error.strerror}", final=True) from error
        del self._muxer.out[:count]
        return True

    def _last_words(self, found: list[Picture], *, to_the_end: bool) -> Sequence[Picture]:
        if to_the_end and self._child.wait(_ENDED_S) == 0:
            return found
        raise DecoderFailed("dead", f"ffmpeg has ended with {self._child.poll()}", final=True)


class _Muxer:
    """Packets as NUT into `out`."""

    def __init__(self, codec: str) -> None:
        self.out = bytearray()
        self._count = 0
        self._container: Any = library().open(self, "w", format="nut", options={"flush_packets": "1"})
        self._stream = self._container.add_mux_stream(codec, rate=25, width=16, height=16)  # it finds out itself

    def write(self, data: bytes) -> int:
        """Be the file that PyAV writes to."""
        self.out += data
        return len(data)

    def packet(self, packet: Packet) -> None:
        """Write one; its time stamps are ours, those of the stream may do anything."""
        sent = library().Packet(packet.data)
        sent.pts = sent.dts = self._count
        sent.time_base, sent.stream, sent.is_keyframe = Fraction(1, 25), self._stream, packet.key
        self._count += 1
        self._container.mux_one(sent)

    def close(self) -> None:
        """Write the end."""
        self._container.close()


class _Pictures:
    """YUV4MPEG2 in pieces, to pictures."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self._header: y4m.Header | None = None
        self._size = 0
        self._data = bytearray()

    def fed(self, data: bytes) -> list[Picture]:
        """Take a piece, give what is complete. Raises BitstreamError."""
        self._data += data
        if self._header is None and (line := self._line(0)) is not None:
            self._header = y4m.parse(line, MOST_PIXELS)
            self._size = videoplanes.size(self._header.width, self._header.height, self._header.pixel_format)
            del self._data[: len(line) + 1]
        found: list[Picture] = []
        while self._header and (line := self._line(0)) is not None and len(self._data) > len(line) + self._size:
            start = len(line) + 1
            with memoryview(self._data) as view, view[start : start + self._size] as samples:
                found.append(self._picture(self._header, samples))
            del self._data[: start + self._size]
        return found

    def _line(self, start: int) -> bytes | None:
        end = self._data.find(b"\n", start, start + y4m.LONGEST_LINE)
        if end < 0 and len(self._data) > y4m.LONGEST_LINE:
            raise BitstreamError("no YUV4MPEG2: a line without an end")
        return bytes(self._data[start:end]) if end >= 0 else None

    def _picture(self, header: y4m.Header, samples: memoryview) -> Picture:
        frame = videoplanes.unpacked(samples, header.width, header.height, header.pixel_format)
        frame.color_range = 2 if header.full else 1
        return Picture(self.order.next(), header.width, header.height, header.pixel_format, corrupt=False, image=frame)
