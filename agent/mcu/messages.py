"""The payloads, each as one layout: names as in wire.h (`GW_HELLO_BOOT_NONCE` is `boot_nonce` of `HELLO`), little-endian.

A payload may be longer than known here; a shorter one is an error.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from agent.mcu.wire import PAYLOAD_MAX


class Payload:
    """One layout: `name:code` for each field, codes as in `struct` (B H I), without gaps."""

    __slots__ = ("_struct", "fields", "name", "size")

    def __init__(self, name: str, spec: str) -> None:
        """Read `spec`."""
        pairs = [item.split(":") for item in spec.split()]
        self.name = name
        self.fields = tuple(field for field, _code in pairs)
        self._struct = struct.Struct("<" + "".join(code for _field, code in pairs))
        self.size = self._struct.size

    def pack(self, **values: int) -> bytes:
        """Give the bytes; every field must be named."""
        return self._struct.pack(*(values[field] for field in self.fields))

    def unpack(self, payload: bytes) -> dict[str, int]:
        """Give the fields by name. Raises ValueError for a payload that is too short."""
        if len(payload) < self.size:
            raise ValueError(f"{self.name}: {len(payload)} bytes, {self.size} at least")
        return dict(zip(self.fields, self._struct.unpack_from(payload), strict=True))

    def offsets(self) -> Iterator[tuple[str, int]]:
        """Yield `(field, offset)`, for the comparison with the firmware's header."""
        at = 0
        for field, code in zip(self.fields, self._struct.format[1:], strict=True):
            yield field, at
            at += struct.calcsize("<" + code)


HELLO_ASK = Payload("HELLO_ASK", "nonce:I ttl_min_ms:I ttl_max_ms:I proto_min:B proto_max:B")
HELLO = Payload(
    "HELLO",
    "nonce:I boot_nonce:I token:I firmware:I ttl_min_ms:I ttl_max_ms:I maint_max_ms:I capabilities:H boots:H cycles:H"
    " expiries:H proto_min:B proto_max:B reset:B power_reason:B",
)
LEASE = Payload("LEASE", "ttl_ms:I token:I phase:B")
ACK = Payload("ACK", "remaining_ms:I next_token:I margin_ms:I result:B phase:B")
STATUS = Payload(
    "STATUS",
    "uptime_ms:I remaining_ms:I next_off_ms:I frames:I crc_errors:H frame_errors:H gaps:H repeats:H bad_tokens:H"
    " spi_timeouts:H i2c_timeouts:H overruns:H self_checks:H phase:B power:B tries:B",
)
EVENTLOG_ASK = Payload("EVENTLOG_ASK", "first:B")
EVENTLOG = Payload("EVENTLOG", "total:B first:B count:B")
ENTRY = Payload("ENTRY", "t_ms:I ttl_ms:I boot:H seq:H reason:B phase:B detail:B")
POWER_CYCLE = Payload("POWER_CYCLE", "nonce:I delay_ms:I off_ms:I reason:B")
CHALLENGE = Payload("CHALLENGE", "nonce:I code:I result:B")
CONFIRM = Payload("CONFIRM", "nonce:I code:I")
CYCLE_ACK = Payload("CYCLE_ACK", "nonce:I in_ms:I result:B")
UNSUPPORTED = Payload("UNSUPPORTED", "type:B proto_min:B proto_max:B")
ALL = (
    *(HELLO_ASK, HELLO, LEASE, ACK, STATUS, EVENTLOG_ASK, EVENTLOG, ENTRY, POWER_CYCLE, CHALLENGE, CONFIRM),
    *(CYCLE_ACK, UNSUPPORTED),
)
EVENTLOG_MOST = (PAYLOAD_MAX - EVENTLOG.size) // ENTRY.size
ERRORS = ("crc_errors", "frame_errors", "gaps", "bad_tokens", "spi_timeouts", "i2c_timeouts", "overruns", "self_checks")
"""Counters of STATUS that tell of something wrong when they grow."""


def entries(payload: bytes) -> list[dict[str, int]]:
    """Give the entries of an EVENTLOG, newest first. Raises ValueError if it says that there are more than it holds."""
    count = EVENTLOG.unpack(payload)["count"]
    if count > EVENTLOG_MOST:
        raise ValueError(f"EVENTLOG: {count} entries, {EVENTLOG_MOST} at most")
    starts = range(EVENTLOG.size, EVENTLOG.size + count * ENTRY.size, ENTRY.size)
    return [ENTRY.unpack(payload[at : at + ENTRY.size]) for at in starts]
