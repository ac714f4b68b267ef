"""Decoding by libavcodec (PyAV), in this process.

Threads work on slices: a context whose threads work on frames gives each picture later, and hangs for ever when it is dropped
undrained (PyAV joins a worker that waits for the interpreter). So: never frames, and always flushed before it is let go of.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from agent.errors import DecoderFailed
from agent.linux.pyav import library
from agent.ports import Packet, Picture

MOST_PIXELS = 35_651_584
"""Of the largest picture of level 6.2; libavcodec refuses more before it reserves memory for it."""
_MOST_THREADS = 4


class AvDecoder:
    """`ports.Decoder` on one codec context. Raises DecoderFailed (absent) if there is none, or it cannot be opened."""

    def __init__(self, name: str) -> None:
        """Open libavcodec's decoder of this name."""
        av = library()
        self._av, self._drained = av, False
        try:
            context = av.CodecContext.create(name, "r")
            context.thread_type = "SLICE"
            context.thread_count = min(_MOST_THREADS, os.cpu_count() or 1)
            context.options = {"max_pixels": str(MOST_PIXELS)}
            context.open()
        except (av.FFmpegError, OSError, ValueError) as error:  # UnknownCodecError is a ValueError
            raise DecoderFailed("absent", f"{name}: {error}", final=True) from error
        self._context: Any = context

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Take a packet."""
        sent = self._av.Packet(packet.data)
        sent.pts = sent.dts = packet.serial  # comes back with its picture
        try:
            return [picture(frame, frame.pts) for frame in self._context.decode(sent)]
        except (self._av.FFmpegError, OSError, ValueError) as error:
            raise DecoderFailed("error", f"packet {packet.serial}: {error}", final=False) from error

    def collect(self) -> Sequence[Picture]:
        """Give nothing: pictures come with the packet that completes them."""
        return ()

    def drain(self) -> Sequence[Picture]:
        """Give what is still inside."""
        if self._drained:
            return ()
        self._drained = True
        try:
            return [picture(frame, frame.pts) for frame in self._context.decode(None)]
        except (self._av.FFmpegError, OSError, ValueError) as error:
            raise DecoderFailed("error", f"draining: {error}", final=False) from error

    def close(self) -> None:
        """Flush it, so that it can be let go of."""
        self._context.flush_buffers()


def picture(frame: Any, serial: int | None) -> Picture:
    """Give a PyAV frame as a picture; one without a number is nobody's."""
    number = -1 if serial is None else serial
    return Picture(number, frame.width, frame.height, frame.format.name, frame.is_corrupt, frame)
