"""Which video a transport stream carries, by its tables (ISO/IEC 13818-1, 2.4.4): to see where another codec begins. Pure.

FFmpeg's demultiplexer keeps the codec that it saw first on a PID, whatever the tables say later.
"""

from __future__ import annotations

import zlib

SIZE, SYNC = 188, 0x47
VIDEO = frozenset({0x01, 0x02, 0x10, 0x1B, 0x24, 0x33, 0x42, 0xD1, 0xEA})
"""stream_type of video (2.4.4.9, table 2-34): MPEG-1, -2, -4, H.264, HEVC, VVC, and three that are registered."""
_PAT, _PMT = 0, 2
_MOST_PROGRAMS = 64
_REVERSED = bytes(int(f"{value:08b}"[::-1], 2) for value in range(256))
Video = tuple[tuple[int, int], ...]
"""PID and stream_type of each video stream, by PID."""


class Tables:
    """Fed with packets of 188 bytes. Only sections that fit into one packet are read; real ones of one camera do."""

    def __init__(self) -> None:
        self.association = b""
        """The last packet with a program association table."""
        self._programs: dict[int, Video | None] = {}

    def turns(self, packet: bytes) -> bool:
        """Take a packet; tell whether it announces other video than its program had before."""
        pid = (packet[1] & 0x1F) << 8 | packet[2]
        if not packet[1] & 0x40 or (pid and pid not in self._programs):  # no section begins here, or none of ours
            return False
        section = _section(packet)
        if section is None:
            return False
        if pid == 0:
            self._associate(packet, section)
            return False
        if section[0] != _PMT:
            return False
        before, self._programs[pid] = self._programs[pid], _video(section)
        return before is not None and before != self._programs[pid]

    def _associate(self, packet: bytes, section: bytes) -> None:
        if section[0] != _PAT:
            return
        self.association = packet
        rows = [section[at : at + 4] for at in range(8, len(section) - 4, 4)][:_MOST_PROGRAMS]
        pids = [(row[2] & 0x1F) << 8 | row[3] for row in rows if row[:2] != b"\0\0"]  # 0 is the network's own table
        self._programs = {pid: self._programs.get(pid) for pid in pids}


def _section(packet: bytes) -> bytes | None:
    """Give the section that begins in a packet, its checksum proved; None if there is none."""
    start = 4 + (1 + packet[4] if packet[3] & 0x20 else 0)
    if start >= SIZE or not packet[3] & 0x10:
        return None
    start += 1 + packet[start]
    if start + 3 > SIZE:
        return None
    end = start + 3 + ((packet[start + 1] & 0x0F) << 8 | packet[start + 2])
    section = packet[start:end]
    if end > SIZE or len(section) < 12 or checksum(section[:-4]) != section[-4:]:
        return None
    return section


def _video(section: bytes) -> Video:
    at = 12 + ((section[10] & 0x0F) << 8 | section[11])
    found = []
    while at + 5 <= len(section) - 4:
        pid = (section[at + 1] & 0x1F) << 8 | section[at + 2]
        if section[at] in VIDEO:
            found.append((pid, section[at]))
        at += 5 + ((section[at + 3] & 0x0F) << 8 | section[at + 4])
    return tuple(sorted(found))


def checksum(data: bytes) -> bytes:
    """Give CRC_32 (annex A): that of zlib with the bits of everything turned round."""
    turned = zlib.crc32(data.translate(_REVERSED)).to_bytes(4, "little").translate(_REVERSED)
    return bytes(byte ^ 0xFF for byte in turned)
