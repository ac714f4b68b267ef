"""Frames on the serial line: `COBS(ver type seq16 flags len payload crc16) 00`.

The twin of firmware_hooks/include/gatewarden/wire.h: a test compares the two by name.
"""

from __future__ import annotations

import binascii
import struct
from dataclasses import dataclass
from enum import IntEnum

from cobs import cobs

PROTO_MIN = PROTO_MAX = 1
PAYLOAD_MAX = 48
CRC_SIZE = 2
WIRE_MAX = 58  # a byte of COBS and the delimiter included
FLAG_REPEAT = 0x01
_HEADER = struct.Struct("<BBHBB")
_CRC_START = 0xFFFF


class Type(IntEnum):
    """What a frame is; an answer carries the seq of what it answers."""

    HELLO_ASK = 0x01
    LEASE = 0x02
    STATUS_ASK = 0x03
    EVENTLOG_ASK = 0x04
    POWER_CYCLE = 0x05
    CONFIRM = 0x06
    HELLO = 0x81
    ACK = 0x82
    STATUS = 0x83
    EVENTLOG = 0x84
    CHALLENGE = 0x85
    CYCLE_ACK = 0x86
    UNSUPPORTED = 0xFF


class Phase(IntEnum):
    """What the gateway is doing; each has times of its own in the MCU."""

    BOOT = 0
    RUN = 1
    UPDATE = 2
    SHUTDOWN = 3
    MAINT = 4


class Result(IntEnum):
    """What became of a request."""

    OK = 0
    REPEATED = 1
    BAD_TOKEN = 2
    STALE = 3
    NO_SESSION = 4
    BAD_PHASE = 5
    EXHAUSTED = 6
    CYCLING = 7
    BAD_NONCE = 8


class Reset(IntEnum):
    """Why the MCU itself started."""

    UNKNOWN = 0
    POWER_ON = 1
    BROWNOUT = 2
    PIN = 3
    SOFTWARE = 4
    WATCHDOG = 5


class Reason(IntEnum):
    """What an entry of the event log tells, and why the gateway was powered last."""

    NONE = 0
    MCU_START = 1
    LEASE_EXPIRED = 2
    REQUESTED = 3
    POWERED = 4
    PHASE = 5
    SELF_CHECK = 6


def word(kind: type[IntEnum], value: int) -> str:
    """Give the name of a number in lower case; one that only a newer firmware knows as its number."""
    try:
        return kind(value).name.lower()
    except ValueError:
        return f"code_{value}"


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame. `type` may be one that this version does not know."""

    ver: int
    type: int
    seq: int
    flags: int
    payload: bytes


def encode(frame: Frame) -> bytes:
    """Give the bytes of `frame` with its delimiter. Raises ValueError for a payload of more than `PAYLOAD_MAX` bytes."""
    if len(frame.payload) > PAYLOAD_MAX:
        raise ValueError(f"a payload of {len(frame.payload)} bytes, {PAYLOAD_MAX} at most")
    raw = _HEADER.pack(frame.ver, frame.type, frame.seq, frame.flags, len(frame.payload)) + frame.payload
    return bytes(cobs.encode(raw + crc(raw).to_bytes(CRC_SIZE, "little"))) + b"\0"


def crc(raw: bytes) -> int:
    """CRC-16/CCITT-FALSE."""
    return binascii.crc_hqx(raw, _CRC_START)


class Decoder:
    """Bytes of a stream, cut anywhere, to frames. Holds at most one frame; `errors` counts what was none, by kind."""

    def __init__(self) -> None:
        """Begin with an empty line."""
        self.errors = {"crc": 0, "frame": 0}
        self._held = bytearray()
        self._skip = False

    def feed(self, data: bytes) -> list[Frame]:
        """Take bytes in; give the frames that they complete."""
        frames: list[Frame] = []
        *ended, rest = data.split(b"\0")
        for piece in ended:
            self._hold(piece)
            if self._skip:
                self.errors["frame"] += 1
            elif self._held:
                frames += self._frame(bytes(self._held))
            self._held.clear()
            self._skip = False
        self._hold(rest)
        return frames

    def _hold(self, piece: bytes) -> None:
        """Keep what may be part of a frame; what is too long for one is skipped up to the next delimiter."""
        if self._skip or len(self._held) + len(piece) >= WIRE_MAX:
            self._skip = True
            self._held.clear()
        else:
            self._held += piece

    def _frame(self, coded: bytes) -> list[Frame]:
        try:
            raw = cobs.decode(coded)
        except cobs.DecodeError:
            raw = b""
        body, sum_ = raw[:-CRC_SIZE], raw[-CRC_SIZE:]
        if len(body) < _HEADER.size or body[_HEADER.size - 1] != len(body) - _HEADER.size:
            self.errors["frame"] += 1
            return []
        if int.from_bytes(sum_, "little") != crc(body):
            self.errors["crc"] += 1
            return []
        ver, type_, seq, flags, _length = _HEADER.unpack_from(body)
        return [Frame(ver, type_, seq, flags, body[_HEADER.size :])]
