"""Video usability information of H.264 (Annex E.1): shape of samples, colour, clock, buffering."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import BitstreamError
from agent.video.bits import Bits

_EXTENDED_SAR = 255
_UE = 2**32 - 2


@dataclass(frozen=True, slots=True)
class Vui:
    """VUI parameters, E.1.1; a missing part has the value that the standard infers, or 0 (and -1: bitstream restriction)."""

    aspect_ratio_idc: int = 0
    sar: tuple[int, int] = (0, 0)
    overscan: int = 0
    """0 nothing said, 1 not appropriate, 2 appropriate."""
    video_format: int = 5
    video_full_range_flag: bool = False
    colour_primaries: int = 2
    transfer_characteristics: int = 2
    matrix_coefficients: int = 2
    chroma_sample_loc_type: tuple[int, int] = (0, 0)
    num_units_in_tick: int = 0
    time_scale: int = 0
    fixed_frame_rate_flag: bool = False
    hrd: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())
    """NAL and VCL: bit_rate_scale, cpb_size_scale, three values a buffer, then the four lengths."""
    low_delay_hrd_flag: bool = False
    pic_struct_present_flag: bool = False
    max_num_reorder_frames: int = -1
    max_dec_frame_buffering: int = -1


def parse(bits: Bits) -> Vui | None:
    """Read it; None if it is damaged, as some cameras have it: their pictures decode all the same."""
    try:
        return _vui(bits)
    except BitstreamError:
        return None


def _vui(bits: Bits) -> Vui:
    aspect = bits.u(8) if bits.flag() else 0
    sar = (bits.u(16), bits.u(16)) if aspect == _EXTENDED_SAR else (0, 0)
    overscan = 1 + bits.u(1) if bits.flag() else 0
    signal = _signal(bits) if bits.flag() else (5, False, 2, 2, 2)
    location = (0, 0)
    if bits.flag():
        location = (bits.ue("chroma_sample_loc_type_top_field", 5), bits.ue("chroma_sample_loc_type_bottom_field", 5))
    clock = (bits.u(32), bits.u(32), bits.flag()) if bits.flag() else (0, 0, False)
    nal = _hrd(bits) if bits.flag() else ()
    vcl = _hrd(bits) if bits.flag() else ()
    low_delay = bool(nal or vcl) and bits.flag()
    structured = bits.flag()
    reorder = _restriction(bits) if bits.flag() else (-1, -1)
    return Vui(aspect, sar, overscan, *signal, location, *clock, (nal, vcl), low_delay, structured, *reorder)


def _signal(bits: Bits) -> tuple[int, bool, int, int, int]:
    video_format, full = bits.u(3), bits.flag()
    colours = (bits.u(8), bits.u(8), bits.u(8)) if bits.flag() else (2, 2, 2)
    return video_format, full, *colours


def _hrd(bits: Bits) -> tuple[int, ...]:
    """Read the hypothetical reference decoder's numbers, E.1.2."""
    count = bits.ue("cpb_cnt_minus1", 31) + 1
    found = [bits.u(4), bits.u(4)]
    for _ in range(count):
        found += [bits.ue("bit_rate_value_minus1", _UE), bits.ue("cpb_size_value_minus1", _UE), bits.u(1)]
    return (*found, *(bits.u(5) for _ in range(4)))


def _restriction(bits: Bits) -> tuple[int, int]:
    """Read the bitstream restriction; its first five fields concern encoders."""
    bits.skip(1)
    limits = (("max_bytes_per_pic_denom", 16), ("max_bits_per_mb_denom", 16))
    for name, most in (*limits, ("log2_max_mv_length_horizontal", 32), ("log2_max_mv_length_vertical", 32)):
        bits.ue(name, most)
    return bits.ue("max_num_reorder_frames", 16), bits.ue("max_dec_frame_buffering", 16)
