"""Bits of a payload, most significant first, as H.264, HEVC and AV1 write them. What is not there raises; no loop is long."""

from __future__ import annotations

from agent.errors import BitstreamError

LONGEST = 16_384
"""Bytes of a parameter set that are looked at; real ones have below 200, the standards' largest some thousand."""
_GOLOMB_ZEROS, _WINDOW = 32, 5


def unescaped(unit: bytes) -> bytes:
    """Give a NAL unit's bytes without emulation prevention (H.264 7.4.1.1). Raises BitstreamError above LONGEST."""
    if len(unit) > LONGEST:
        raise BitstreamError(f"a parameter set of {len(unit)} bytes, allowed: {LONGEST}")
    return unit.replace(b"\0\0\3", b"\0\0")


class Bits:
    """Reads on and on through `data`. Every method raises BitstreamError at its end, or where a value is out of its range."""

    __slots__ = ("_at", "_data", "_end")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._end = len(data) * 8

    def u(self, count: int) -> int:
        """Read an unsigned number of `count` bits."""
        start, end = self._at, self._at + count
        if end > self._end:
            raise BitstreamError(f"cut off: {self._end} bits, {end} needed")
        self._at = end
        last = (end + 7) >> 3
        return int.from_bytes(self._data[start >> 3 : last]) >> (last * 8 - end) & ((1 << count) - 1)

    def flag(self) -> bool:
        """Read one bit."""
        return self.u(1) == 1

    def skip(self, count: int) -> None:
        """Read `count` bits and forget them."""
        if self._at + count > self._end:
            raise BitstreamError(f"cut off: {self._end} bits, {self._at + count} needed")
        self._at += count

    def ue(self, name: str, most: int, least: int = 0) -> int:
        """Read an unsigned Exp-Golomb code (H.264 9.1)."""
        start = self._at >> 3
        window = self._data[start : start + _WINDOW].ljust(_WINDOW, b"\0")
        width = _WINDOW * 8 - (self._at & 7)
        zeros = width - (int.from_bytes(window) & ((1 << width) - 1)).bit_length()
        if zeros > _GOLOMB_ZEROS:
            raise BitstreamError(f"{name} is no Exp-Golomb code")
        self.skip(zeros)
        value = self.u(zeros + 1) - 1
        if not least <= value <= most:
            raise BitstreamError(f"{name} is {value}, allowed: {least} .. {most}")
        return value

    def se(self, name: str, least: int, most: int) -> int:
        """Read a signed Exp-Golomb code (H.264 9.1.1)."""
        code = self.ue(name, 2**32)
        value = (code + 1) // 2 if code & 1 else -(code // 2)
        if not least <= value <= most:
            raise BitstreamError(f"{name} is {value}, allowed: {least} .. {most}")
        return value

    def more(self) -> bool:
        """Tell whether there is more than the closing bit and zeros (more_rbsp_data, H.264 7.2)."""
        left = self._end - self._at
        rest = int.from_bytes(self._data[self._at >> 3 :]) & ((1 << left) - 1)
        return rest not in {0, 1 << max(left - 1, 0)}
