"""AV1 sequence headers (AV1 Bitstream & Decoding Process Specification, 5.5): OBU in, frozen record out, fields as named there.

Everything raises BitstreamError for what is cut off or out of range.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent.errors import BitstreamError
from agent.video.bits import LONGEST, Bits
from agent.video.picture import bounded, rate

SEQUENCE_HEADER, FRAME_HEADER, FRAME = 1, 3, 6
_NAMES = ("Main", "High", "Professional")
_LEB128_BYTES, _LEB128_MOST = 8, 2**32 - 1
_SELECT = 2
_SRGB = (1, 13, 0)
"""colour_primaries, transfer_characteristics and matrix_coefficients of sRGB, whose subsampling is not written."""
_UNSPECIFIED = (2, 2, 2)
_LEVELS_WITH_TIER = 7


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """One way to decode the stream: which layers, at which level."""

    operating_point_idc: int
    seq_level_idx: int
    seq_tier: int


@dataclass(frozen=True, slots=True)
class ColorConfig:
    """color_config(), 5.5.2."""

    high_bitdepth: bool
    twelve_bit: bool
    mono_chrome: bool
    color_primaries: int
    transfer_characteristics: int
    matrix_coefficients: int
    color_range: bool
    subsampling_x: bool
    subsampling_y: bool
    chroma_sample_position: int
    separate_uv_delta_q: bool


@dataclass(frozen=True, slots=True)
class SequenceHeader:
    """sequence_header_obu(), 5.5.1."""

    seq_profile: int
    still_picture: bool
    reduced_still_picture_header: bool
    num_units_in_display_tick: int
    time_scale: int
    equal_picture_interval: bool
    operating_points: tuple[OperatingPoint, ...]
    max_frame_width_minus_1: int
    max_frame_height_minus_1: int
    frame_ids: tuple[int, ...]
    """delta_frame_id_length_minus_2 and additional_frame_id_length_minus_1, empty without frame ids."""
    tools: tuple[int, ...]
    """The flags and lengths from use_128x128_superblock to enable_restoration, as they come."""
    color_config: ColorConfig
    film_grain_params_present: bool

    @property
    def profile_idc(self) -> int:
        """seq_profile."""
        return self.seq_profile

    @property
    def profile(self) -> str:
        """The name of the profile."""
        return _NAMES[self.seq_profile]

    @property
    def level(self) -> str:
        """The level of operating point 0: `2.1`, from 2.0 at seq_level_idx 0, four to each major number."""
        index = self.operating_points[0].seq_level_idx
        return f"{2 + index // 4}.{index % 4}"

    @property
    def width(self) -> int:
        """Columns of the largest frame."""
        return self.max_frame_width_minus_1 + 1

    @property
    def height(self) -> int:
        """Lines of the largest frame."""
        return self.max_frame_height_minus_1 + 1

    @property
    def chroma_format(self) -> str:
        """`4:2:0` and the like."""
        config = self.color_config
        if config.mono_chrome:
            return "4:0:0"
        return {(True, True): "4:2:0", (True, False): "4:2:2"}.get((config.subsampling_x, config.subsampling_y), "4:4:4")

    @property
    def bit_depth(self) -> int:
        """Bits of a luma sample."""
        config = self.color_config
        return 8 if not config.high_bitdepth else 12 if config.twelve_bit else 10

    @property
    def fps(self) -> float | None:
        """Frames per second, None if it does not say."""
        return rate(self.time_scale, self.num_units_in_display_tick) if self.equal_picture_interval else None


def obus(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield (obu_type, payload) of each OBU of a temporal unit in the low-overhead format (5.3)."""
    at = 0
    while at < len(data):
        head = data[at]
        if head & 0x80:
            raise BitstreamError(f"obu_forbidden_bit is set at byte {at}")
        at += 2 if head & 4 else 1
        size, at = _leb128(data, at) if head & 2 else (len(data) - at, at)
        if at + size > len(data):
            raise BitstreamError(f"cut off: an OBU ends at byte {at + size} of {len(data)}")
        yield head >> 3 & 0xF, data[at : at + size]
        at += size


def _leb128(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for i in range(_LEB128_BYTES):
        if at + i >= len(data):
            break
        value |= (data[at + i] & 0x7F) << 7 * i
        if not data[at + i] & 0x80:
            if value > _LEB128_MOST:
                break
            return value, at + i + 1
    raise BitstreamError(f"no length at byte {at} of {len(data)}")


def parse(payload: bytes) -> SequenceHeader:
    """Read a sequence header OBU's payload."""
    if len(payload) > LONGEST:
        raise BitstreamError(f"a sequence header of {len(payload)} bytes, allowed: {LONGEST}")
    bits = Bits(payload)
    profile, still, reduced = bits.u(3), bits.flag(), bits.flag()
    if profile >= len(_NAMES):
        raise BitstreamError(f"seq_profile is {profile}, allowed: 0 .. {len(_NAMES) - 1}")
    clock, points = ((0, 0, False), (OperatingPoint(0, bits.u(5), 0),)) if reduced else _operation(bits)
    width_bits, height_bits = bits.u(4) + 1, bits.u(4) + 1
    width, height = bits.u(width_bits), bits.u(height_bits)
    bounded(width + 1, height + 1)
    ids = (bits.u(4), bits.u(3)) if not reduced and bits.flag() else ()
    tools = _tools(bits, reduced=reduced)
    return SequenceHeader(
        profile, still, reduced, *clock, points, width, height, ids, tools, _color(bits, profile), bits.flag()
    )


def _operation(bits: Bits) -> tuple[tuple[int, int, bool], tuple[OperatingPoint, ...]]:
    """Read the clock and the operating points."""
    clock, delay_bits = (0, 0, False), 0
    if bits.flag():
        units, scale, equal = bits.u(32), bits.u(32), bits.flag()
        clock = (units, scale, equal)
        if equal:
            bits.ue("num_ticks_per_picture_minus_1", 2**32 - 2)
        if bits.flag():
            delay_bits = bits.u(5) + 1
            bits.skip(32 + 5 + 5)
    displayed = bits.flag()
    count = bits.u(5) + 1
    return clock, tuple(_point(bits, delay_bits, displayed=displayed) for _ in range(count))


def _point(bits: Bits, delay_bits: int, *, displayed: bool) -> OperatingPoint:
    idc, level = bits.u(12), bits.u(5)
    tier = bits.u(1) if level > _LEVELS_WITH_TIER else 0
    if delay_bits and bits.flag():
        bits.skip(2 * delay_bits + 1)
    if displayed and bits.flag():
        bits.skip(4)
    return OperatingPoint(idc, level, tier)


def _tools(bits: Bits, *, reduced: bool) -> tuple[int, ...]:
    found = [bits.u(1), bits.u(1), bits.u(1)]  # superblock size, filter intra, intra edge filter
    if not reduced:
        found += [bits.u(1) for _ in range(4)]  # interintra, masked, warped, dual filter
        order = bits.u(1)
        found += [order, *((bits.u(1), bits.u(1)) if order else ())]
        screen = _SELECT if bits.flag() else bits.u(1)
        integer = _SELECT
        if screen:
            integer = _SELECT if bits.flag() else bits.u(1)
        found += [screen, integer, *((bits.u(3),) if order else ())]
    return (*found, *(bits.u(1) for _ in range(3)))  # superres, cdef, restoration


def _color(bits: Bits, profile: int) -> ColorConfig:
    high = bits.flag()
    twelve = profile == 2 and high and bits.flag()
    mono = profile != 1 and bits.flag()
    described = (bits.u(8), bits.u(8), bits.u(8)) if bits.flag() else _UNSPECIFIED
    if mono:
        return ColorConfig(
            high,
            twelve,
            mono,
            *described,
            bits.flag(),
            subsampling_x=True,
            subsampling_y=True,
            chroma_sample_position=0,
            separate_uv_delta_q=False,
        )
    if described == _SRGB:
        full, x, y, position = True, False, False, 0
    else:
        full = bits.flag()
        x, y = _subsampled(bits, profile, twelve=twelve)
        position = bits.u(2) if x and y else 0
    return ColorConfig(high, twelve, mono, *described, full, x, y, position, bits.flag())


def _subsampled(bits: Bits, profile: int, *, twelve: bool) -> tuple[bool, bool]:
    if profile < 2:
        return profile == 0, profile == 0
    if not twelve:
        return True, False
    x = bits.flag()
    return x, x and bits.flag()
