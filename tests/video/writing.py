"""Writes bits, as the readers of agent/video read them; for sets that no encoder makes."""

from __future__ import annotations

from typing import Self


class Writer:
    """Bits, most significant first. Every method gives the writer back."""

    def __init__(self) -> None:
        self._bits: list[str] = []

    def u(self, count: int, value: int) -> Self:
        """Write an unsigned number of `count` bits."""
        self._bits.append(f"{value:0{count}b}" if count else "")
        return self

    def ue(self, *values: int) -> Self:
        """Write unsigned Exp-Golomb codes."""
        for value in values:
            text = f"{value + 1:b}"
            self._bits.append("0" * (len(text) - 1) + text)
        return self

    def se(self, *values: int) -> Self:
        """Write signed Exp-Golomb codes."""
        return self.ue(*(2 * value - 1 if value > 0 else -2 * value for value in values))

    def closed(self) -> bytes:
        """Give the bytes, with the closing bit and zeros up to the next byte."""
        text = "".join(self._bits) + "1"
        text += "0" * (-len(text) % 8)
        return int(text, 2).to_bytes(len(text) // 8)


def escaped(raw: bytes) -> bytes:
    """Put emulation prevention bytes in (H.264 7.4.1), one byte after the other."""
    out, zeros = bytearray(), 0
    for byte in raw:
        if zeros == 2 and byte <= 3:
            out.append(3)
            zeros = 0
        out.append(byte)
        zeros = zeros + 1 if byte == 0 else 0
    return bytes(out)


def unit(header: bytes, writer: Writer) -> bytes:
    """Give a NAL unit."""
    return header + escaped(writer.closed())


def annex_b(*units: bytes) -> bytes:
    """Put units one after another with start codes."""
    return b"".join(b"\0\0\0\1" + each for each in units)


def h264_sps(
    width_mbs: int = 20,
    height_mbs: int = 12,
    number: int = 0,
    *,
    profile: int = 77,
    level: int = 30,
    references: int = 4,
    crop: tuple[int, int, int, int] | None = None,
    clock: tuple[int, int] | None = None,
    reorder: tuple[int, int] | None = None,
    chroma: int = 1,
) -> bytes:
    """Give an SPS of H.264; from profile 100 on with a chroma format."""
    out = Writer().u(8, profile).u(8, 0).u(8, level).ue(number)
    if profile in {100, 244}:
        out.ue(chroma)
        if chroma == 3:
            out.u(1, 0)
        out.ue(0, 0).u(2, 0)
    out.ue(0, 0, 2, references).u(1, 0).ue(width_mbs - 1, height_mbs - 1).u(1, 1).u(1, 1)
    out.u(1, crop is not None).ue(*(crop or ()))
    out.u(1, bool(clock or reorder))
    if clock or reorder:
        out.u(4, 0).u(1, clock is not None)
        if clock:
            out.u(32, clock[0]).u(32, clock[1]).u(1, 1)
        out.u(3, 0).u(1, reorder is not None)
        if reorder:
            out.u(1, 1).ue(0, 0, 10, 10, *reorder)
    return unit(b"\x67", out)


def h264_pps(number: int = 0, sps: int = 0, qp: int = 0) -> bytes:
    """Give a PPS of H.264."""
    return unit(b"\x68", Writer().ue(number, sps).u(2, 0).ue(0, 0, 0).u(3, 0).se(qp, 0, 0).u(3, 0))


def h264_slice(pps: int = 0, *, idr: bool = True) -> bytes:
    """Give the beginning of a slice of H.264: as much as anybody here reads of it."""
    return unit(b"\x65" if idr else b"\x41", Writer().ue(0, 7, pps).u(32, 0xDEADBEEF))
