"""Doubles of the decoder port: one that only counts, and a hostile one around any other."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.errors import DecoderFailed
from agent.linux.clock import SystemClock
from agent.linux.videosource import packets
from agent.ports import Clock, Decoder, Packet, Picture
from agent.video.decoding import Decoding
from agent.video.running import Ways
from tests.doubles import HandClock
from tests.media import making

FAULTS = ("hang", "nothing", "stale", "crash", "errors")
"""Hangs (and is cut off), gives nothing, gives pictures of another size, its process ends, refuses every packet."""
HANG_S = 1.0


def media(name: str) -> list[Packet]:
    """Give the packets of a stream of `make media`."""
    return list(packets(str(making.path(name))))


@dataclass
class Hostile:
    """`Decoder`: as good as `inner` up to the packet `after`, from there on `fault` for ever.

    A hang passes `HANG_S` on a clock that is set by hand.
    """

    inner: Decoder
    fault: str
    after: int
    clock: Clock = field(default_factory=SystemClock)
    newest: int = -1
    closed: bool = False

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Take a packet."""
        self.newest = packet.serial
        if not self.bad:
            return self.inner.decode(packet)
        if self.fault == "errors":
            raise DecoderFailed("error", "refused", final=False)
        return self._bad(lambda: self.inner.decode(packet))

    def collect(self) -> Sequence[Picture]:
        """Give what is ready."""
        return self._bad(self.inner.collect) if self.bad else self.inner.collect()

    def drain(self) -> Sequence[Picture]:
        """Give the rest."""
        return self._bad(self.inner.drain) if self.bad else self.inner.drain()

    def close(self) -> None:
        """Let go."""
        self.closed = True
        self.inner.close()

    @property
    def bad(self) -> bool:
        """Whether its fault has begun."""
        return bool(self.fault) and self.newest >= self.after

    def _bad(self, call: Callable[[], Sequence[Picture]]) -> Sequence[Picture]:
        if self.fault == "crash":
            raise DecoderFailed("dead", "its process has ended", final=True)
        if self.fault == "hang":
            if isinstance(self.clock, HandClock):
                self.clock.pass_s(HANG_S)
            raise DecoderFailed("hang", "no answer", final=True)
        found = call()
        if self.fault == "stale":
            return [replace(picture, width=16, height=16) for picture in found]
        return () if self.fault == "nothing" else found


@dataclass
class Counting:
    """`Decoder` that looks at no bytes: a picture of `shapes` for each packet, in the order of `ranks`, `reorder` late."""

    ranks: Mapping[int, int]
    shapes: Mapping[int, tuple[int, int, str]]
    reorder: int = 2
    waiting: list[tuple[int, int]] = field(default_factory=list)

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Take a packet."""
        heapq.heappush(self.waiting, (self.ranks[packet.serial], packet.serial))
        return [self._next()] if len(self.waiting) > self.reorder else []

    def collect(self) -> Sequence[Picture]:
        """Give nothing."""
        return ()

    def drain(self) -> Sequence[Picture]:
        """Give the rest."""
        return [self._next() for _ in range(len(self.waiting))]

    def close(self) -> None:
        """Forget all."""
        self.waiting.clear()

    def _next(self) -> Picture:
        serial = heapq.heappop(self.waiting)[1]
        return Picture(serial, *self.shapes[serial], corrupt=False, image=None)


@dataclass
class Opening:
    """`Stages`: opens what `ways` make, by the name of the stage, and remembers it; a name that is not there is absent."""

    ways: Mapping[str, Callable[[str], Decoder]]
    opened: list[str] = field(default_factory=list)
    decoders: list[Decoder] = field(default_factory=list)

    def open(self, name: str, codec: str) -> Decoder:
        """Open it."""
        if name not in self.ways:
            raise DecoderFailed("absent", f"no {name} here", final=True)
        self.opened.append(name)
        self.decoders.append(self.ways[name](codec))
        return self.decoders[-1]


def decoded(
    stream: Sequence[Packet], stages: Opening, clock: Clock, ways: Ways | None = None
) -> tuple[Decoding, list[Picture]]:
    """Decode a whole stream as fast as it goes; a clock that is set by hand passes 40 ms with each packet."""
    decoding = Decoding(stream[0].codec, stages, clock, ways)
    found: list[Picture] = []
    for packet in stream:
        if isinstance(clock, HandClock):
            clock.pass_s(0.04)
        found += shown(decoding, decoding.packet(packet), clock)
    return decoding, found + shown(decoding, decoding.finish(), clock)


def shown(decoding: Decoding, pictures: list[Picture], clock: Clock) -> list[Picture]:
    """Take pictures as a consumer does."""
    for picture in pictures:
        decoding.switches.shown(picture, clock.mono_ns())
    return pictures


def presentation(stream: Sequence[Packet]) -> list[int]:
    """Give the numbers of the packets in the order in which their pictures are shown."""
    return [packet.serial for packet in sorted(stream, key=lambda packet: packet.pts_s or 0.0)]
