"""Protocols of decoding: what a decoder is handed, what it gives, and where decoders come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Packet:
    """One access unit, in the order of decoding: Annex B, or AV1's OBUs.

    `key`: the demultiplexer calls it a random-access point. `pts_s` is None where the container does not say. `due_s` is when
    its time of decoding comes, in seconds after that of the first packet; it never runs backwards.
    """

    serial: int
    codec: str
    data: bytes
    key: bool
    pts_s: float | None
    due_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Picture:
    """One decoded picture; `serial` is that of the packet it came in, `image` belongs to the adapters alone."""

    serial: int
    width: int
    height: int
    pixel_format: str
    corrupt: bool
    image: Any


class Decoder(Protocol):
    """One way of decoding, opened for one codec. Every method raises DecoderFailed, and comes back in bounded time."""

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Take a packet and give the pictures that are ready, in the order of presentation."""
        ...

    def collect(self) -> Sequence[Picture]:
        """Give pictures that have become ready since."""
        ...

    def drain(self) -> Sequence[Picture]:
        """Give everything that is still inside; only `close` may follow."""
        ...

    def close(self) -> None:
        """Let go of it, in whatever state it is; never raises."""
        ...


class Stages(Protocol):
    """All ways of decoding that this machine may have."""

    def open(self, name: str, codec: str) -> Decoder:
        """Open the stage `name` for `codec`. Raises DecoderFailed (absent) where this machine has no such thing."""
        ...
