"""MPEG-TS by the packet (ISO/IEC 13818-1, 2.4.3): what a splice of several multiplexes needs to look like one."""

from __future__ import annotations

from collections.abc import Iterator

SIZE, SYNC = 188, 0x47
NULL_PID = 0x1FFF
_PAYLOAD, _COUNTER = 0x10, 0x0F


def packets(stream: bytes | bytearray) -> Iterator[memoryview]:
    """Yield the packets of a transport stream, as views into it. Raises ValueError for one without a sync byte."""
    view = memoryview(stream)
    for start in range(0, len(view) - SIZE + 1, SIZE):
        if view[start] != SYNC:
            raise ValueError(f"no sync byte at {start}")
        yield view[start : start + SIZE]


def pid(packet: memoryview) -> int:
    """Give the PID of a packet."""
    return (packet[1] & 0x1F) << 8 | packet[2]


def joined(parts: list[bytes]) -> bytes:
    """Give the parts one after another, with continuity counters that go on across each join."""
    stream = bytearray(b"".join(parts))
    last: dict[int, int] = {}
    for packet in packets(stream):
        number = pid(packet)
        if number == NULL_PID:
            continue
        count = last.get(number, _COUNTER)
        if packet[3] & _PAYLOAD:  # only packets with a payload count
            count = (count + 1) & _COUNTER
        packet[3] = packet[3] & ~_COUNTER | count
        last[number] = count
    return bytes(stream)
