"""Parameter sets with what the standards allow and hardly an encoder writes, at random from a seed."""

from __future__ import annotations

from random import Random
from typing import Self

from tests.video.writing import Writer, unit

_CHROMA_PROFILES = (100, 110, 122, 244, 44, 118)


class Dice(Writer):
    """A writer that makes values up."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.random = Random(seed)

    def coin(self) -> bool:
        """Write a bit at random and give it."""
        value = self.random.randrange(2)
        self.u(1, value)
        return bool(value)

    def bits(self, *counts: int) -> Self:
        """Write numbers of these lengths at random."""
        for count in counts:
            self.u(count, self.random.randrange(2**count))
        return self

    def up(self, *most: int) -> int:
        """Write unsigned codes from 0 to each bound, and give the last."""
        value = 0
        for bound in most:
            value = self.random.randint(0, bound)
            self.ue(value)
        return value

    def signed(self, least: int, most: int) -> Self:
        """Write a signed code."""
        self.se(self.random.randint(least, most))
        return self


def h264_sps(seed: int) -> bytes:
    """Give an SPS of H.264."""
    out = Dice(seed)
    profile = out.random.choice((66, 77, 88, *_CHROMA_PROFILES))
    out.u(8, profile).u(8, out.random.randrange(64) << 2).u(8, out.random.choice((9, 10, 11, 31, 52))).ue(seed % 32)
    if profile in _CHROMA_PROFILES:
        chroma = out.up(3)
        if chroma == 3:
            out.coin()
        out.up(6, 6)
        out.coin()
        if out.coin():
            _h264_lists(out, 12 if chroma == 3 else 8)
    out.up(12)
    order = out.random.randrange(3)
    out.ue(order)
    if order == 0:
        out.up(12)
    if order == 1:
        out.coin()
        out.signed(-9, 9).signed(-900000, 900000)
        cycle = out.up(6)
        for _ in range(cycle):
            out.signed(-70000, 70000)
    out.up(16)
    out.coin()
    out.ue(out.random.randint(3, 90), out.random.randint(3, 50))
    if not out.coin():
        out.coin()
    out.u(1, 1)
    if out.coin():
        out.up(5, 5, 5, 5)
    if out.coin():
        _h264_vui(out)
    return unit(b"\x67", out)


def _h264_lists(out: Dice, count: int) -> None:
    for i in range(count):
        if not out.coin():
            continue
        last = following = 8
        for _ in range(16 if i < 6 else 64):
            if following:
                following = out.random.choice((0, 1, 16, 100, 255, last, last))
                delta = (following - last + 128) % 256 - 128
                out.se(delta)
            last = following or last


def _h264_vui(out: Dice) -> None:
    _vui_start(out)
    if out.coin():
        out.bits(32, 32, 1)
    hrds = [out.coin() and _h264_hrd(out) for _ in range(2)]
    if any(hrds):
        out.coin()
    out.coin()
    if out.coin():
        out.coin()
        out.up(16, 16, 15, 15)
        reorder = out.random.randint(0, 6)
        out.ue(reorder, out.random.randint(reorder, 16))


def _vui_start(out: Dice) -> None:
    """Write what H.264 and HEVC begin alike."""
    if out.coin():
        out.u(8, 255).bits(16, 16) if out.random.randrange(2) else out.u(8, out.random.randrange(17))
    if out.coin():
        out.coin()
    if out.coin():
        out.u(3, out.random.randrange(6)).bits(1)
        if out.coin():
            out.bits(8, 8, 8)
    if out.coin():
        out.up(5, 5)


def _h264_hrd(out: Dice) -> bool:
    count = out.up(3)
    out.bits(4, 4)
    for _ in range(count + 1):
        out.up(2**32 - 2, 2**20)
        out.coin()
    out.bits(5, 5, 5, 5)
    return True


def h264_pps(seed: int) -> bytes:
    """Give a PPS of H.264, for an SPS of id 0 with 4:2:0."""
    out = Dice(seed)
    out.ue(seed % 256, 0)
    out.coin()
    out.coin()
    groups = out.random.choice((0, 0, 1, 3))
    out.ue(groups)
    if groups:
        kind = out.random.choice((0, 1, 2, 3, 4, 5))
        out.ue(kind)
        if kind == 0:
            out.up(*[2] * (groups + 1))
        if kind == 2:
            for _ in range(groups):
                out.ue(0, out.random.randint(1, 3))
        if kind in {3, 4, 5}:
            out.coin()
            out.up(3)
    out.up(31, 31)
    out.coin()
    out.u(2, out.random.randrange(3)).signed(-26, 25).signed(-26, 25).signed(-12, 12).bits(1, 1, 1)
    if out.random.randrange(2):
        transform = out.coin()
        if out.coin():
            _h264_lists(out, 6 + 2 * transform)
        out.signed(-12, 12)
    return unit(b"\x68", out)


def hevc_sps(seed: int) -> bytes:
    """Give an SPS of HEVC."""
    out = Dice(seed)
    layers = out.random.randrange(4)
    out.u(4, 0).u(3, layers).u(1, 1)
    _tier(out, layers)
    out.ue(seed % 16)
    chroma = out.up(3)
    if chroma == 3:
        out.coin()
    out.ue(8 * out.random.randint(8, 60), 8 * out.random.randint(8, 60))
    if out.coin():
        out.up(4, 4, 4, 4)
    out.up(8, 8)
    order = out.up(12) + 4
    for _ in range(layers + 1 if out.coin() else 1):
        out.ue(6, 2)
        out.up(9)
    tree = out.random.randint(1, 3)
    out.ue(0, tree, 0, out.random.randint(1, min(tree + 3, 5) - 2))
    out.up(1, 1)
    if out.coin() and out.coin():
        _hevc_lists(out)
    out.bits(1, 1)
    if out.coin():
        out.u(4, out.random.randrange(8)).u(4, out.random.randrange(8)).ue(0, 0).u(1, 1)
    _reference_sets(out)
    if out.coin():
        for _ in range(out.up(4)):
            out.bits(order, 1)
    out.bits(1, 1)
    if out.coin():
        _hevc_vui(out, layers)
    out.u(1, 0)
    return unit(b"\x42\x01", out)


def _tier(out: Dice, layers: int) -> None:
    out.u(2, 0).bits(1).u(5, out.random.choice((1, 2, 3))).bits(32, 4).u(43, 0).bits(1).u(8, 93)
    flags = [(out.coin(), out.coin()) for _ in range(layers)]
    if layers:
        out.u(2 * (8 - layers), 0)
    for profile, level in flags:
        if profile:
            out.u(2, 0).bits(1).u(5, 1).bits(32, 4).u(43, 0).bits(1)
        if level:
            out.u(8, 90)


def _hevc_lists(out: Dice) -> None:
    for size in range(4):
        for matrix in range(0, 6, 3 if size == 3 else 1):
            if not out.coin():
                out.up(matrix // 3 if size == 3 else matrix)
                continue
            if size > 1:
                out.signed(-7, 100)
            for _ in range(min(64, 16 << 2 * size)):
                out.signed(-3, 3)


def _reference_sets(out: Dice) -> None:
    """Write short-term sets, some of them by their difference to the one before: as long as 7.4.8 of the standard says."""
    before: list[int] = []
    after: list[int] = []
    for i in range(out.up(5)):
        if i and len(before) + len(after) < 12 and out.coin():
            before, after = _leaning(out, before, after)
            continue
        if i and len(before) + len(after) >= 12:
            out.u(1, 0)
        before, after = [], []
        counts = out.random.randrange(3), out.random.randrange(3)
        out.ue(*counts)
        for side, count, sign in ((before, counts[0], -1), (after, counts[1], 1)):
            for _ in range(count):
                side.append((side[-1] if side else 0) + sign * (out.up(3) + 1))
                out.coin()


def _leaning(out: Dice, before: list[int], after: list[int]) -> tuple[list[int], list[int]]:
    back, distance = out.coin(), out.up(2) + 1
    shift = -distance if back else distance
    used = [out.coin() or out.coin() for _ in range(len(before) + len(after) + 1)]
    ours = [*zip(before, used, strict=False)]
    theirs = [*zip(after, used[len(before) :], strict=False)]
    own = [(0, used[-1])]
    lower = [delta + shift for delta, kept in (*theirs[::-1], *own, *ours) if kept and delta + shift < 0]
    upper = [delta + shift for delta, kept in (*ours[::-1], *own, *theirs) if kept and delta + shift > 0]
    return lower, upper


def _hevc_vui(out: Dice, layers: int) -> None:
    _vui_start(out)
    out.bits(1, 1, 1)
    if out.coin():
        out.up(2, 2, 2, 2)
    if out.coin():
        out.bits(32, 32)
        if out.coin():
            out.up(40)
        if out.coin():
            _hevc_hrd(out, layers)
    if out.coin():
        out.bits(1, 1, 1)
        out.up(4095, 16, 16, 15, 15)


def _hevc_hrd(out: Dice, layers: int) -> None:
    kinds, parts = int(out.coin()) + int(out.coin()), False
    if kinds:
        parts = out.coin()
        out.bits(*(8, 5, 1, 5) if parts else ()).bits(4, 4).bits(*(4,) if parts else ()).bits(5, 5, 5)
    for _ in range(layers + 1):
        low = False
        if out.coin() or out.coin():
            out.up(2047)
        else:
            low = out.coin()
        count = 1 if low else 1 + out.up(2)
        for _ in range(kinds * count):
            out.up(*(9999, 9999, 9999, 9999) if parts else (9999, 9999))
            out.coin()


def hevc_pps(seed: int) -> bytes:
    """Give a PPS of HEVC, for an SPS of id 0 of at least eight coding tree blocks each way."""
    out = Dice(seed)
    out.ue(seed % 64, 0)
    out.bits(1, 1, 3, 1, 1)
    out.up(14, 14)
    out.signed(-26, 25).bits(1, 1)
    if out.coin():
        out.up(1)
    out.signed(-12, 12).signed(-12, 12).bits(1, 1, 1, 1)
    tiled = out.coin()
    out.coin()
    if tiled:
        out.ue(1, 1)
        if not out.coin():
            out.ue(0, 0)
        out.coin()
    out.coin()
    if out.coin():
        out.coin()
        if not out.coin():
            out.signed(-6, 6).signed(-6, 6)
    if out.coin():
        _hevc_lists(out)
    out.bits(1).ue(0)
    out.bits(1).u(1, 0)
    return unit(b"\x44\x01", out)


def av1_header(seed: int) -> bytes:
    """Give a sequence header of AV1 as an OBU with a size."""
    out = Dice(seed)
    profile = out.random.randrange(3)
    out.u(3, profile).u(2, 0)
    _av1_operation(out)
    out.u(4, 10).u(4, 9).u(11, out.random.randint(63, 2000)).u(10, out.random.randint(63, 1000))
    if out.coin():
        out.u(4, 3).u(3, 2)
    out.bits(1, 1, 1, 1, 1, 1, 1)
    order = out.coin()
    if order:
        out.bits(1, 1)
    if out.coin() or out.coin():  # left to each frame, or used in all
        _ = out.coin() or out.coin()
    if order:
        out.u(3, 6)
    out.bits(1, 1, 1)
    _av1_color(out, profile)
    out.bits(1)
    payload = out.closed()
    return bytes((0x0A, len(payload))) + payload


def _av1_operation(out: Dice) -> None:
    delay = 0
    if out.coin():
        out.u(32, out.random.randint(1, 9)).u(32, out.random.randint(1, 99))
        if out.coin():
            out.up(3)
        if out.coin():
            delay = out.random.randint(1, 32)
            out.u(5, delay - 1).u(32, out.random.randint(1, 99)).bits(5, 5)
    displayed, points = out.coin(), out.random.randint(1, 4)
    out.u(5, points - 1)
    for _ in range(points):
        level = out.random.choice((0, 4, 9, 13))
        out.bits(12).u(5, level)
        if level > 7:
            out.coin()
        if delay and out.coin():
            out.bits(delay, delay, 1)
        if displayed and out.coin():
            out.u(4, out.random.randrange(10))


def _av1_color(out: Dice, profile: int) -> None:
    high = out.coin()
    twelve = profile == 2 and high and out.coin()
    mono = profile != 1 and out.coin()
    srgb = False
    if out.coin():
        srgb = profile == 1 and bool(out.random.randrange(2))
        out.u(8, 1).u(8, 13 if srgb else 1).u(8, 0 if srgb else 1)
    if mono:
        out.bits(1)
        return
    if not srgb:
        out.bits(1)
        x = y = profile == 0
        if profile == 2:
            x = not twelve or out.coin()
            y = twelve and x and out.coin()
        if x and y:
            out.u(2, out.random.randrange(3))
    out.bits(1)
