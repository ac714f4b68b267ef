"""Video usability information of HEVC (ITU-T H.265 Annex E.2): shape of samples, colour, clock, buffering."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import BitstreamError
from agent.video.bits import Bits
from agent.video.hevc_sets import window

_EXTENDED_SAR = 255
_UE = 2**32 - 2
Hrd = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Vui:
    """VUI parameters, E.2.1; a missing part has the value that the standard infers, or 0."""

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
    neutral_chroma_indication_flag: bool = False
    field_seq_flag: bool = False
    frame_field_info_present_flag: bool = False
    def_disp_win: tuple[int, int, int, int] = (0, 0, 0, 0)
    vui_num_units_in_tick: int = 0
    vui_time_scale: int = 0
    vui_num_ticks_poc_diff_one_minus1: int = -1
    hrd: Hrd = ()
    """Every syntax element of it, as they come."""
    restriction: tuple[int, ...] = ()
    """Three flags, then min_spatial_segmentation_idc and the four limits that follow it."""


def parse(bits: Bits, sub_layers: int) -> Vui | None:
    """Read it; None if it is damaged: the pictures decode all the same."""
    try:
        return _vui(bits, sub_layers)
    except BitstreamError:
        return None


def _vui(bits: Bits, sub_layers: int) -> Vui:
    aspect = bits.u(8) if bits.flag() else 0
    sar = (bits.u(16), bits.u(16)) if aspect == _EXTENDED_SAR else (0, 0)
    overscan = 1 + bits.u(1) if bits.flag() else 0
    signal = _signal(bits) if bits.flag() else (5, False, 2, 2, 2)
    location = (0, 0)
    if bits.flag():
        location = (bits.ue("chroma_sample_loc_type_top_field", 5), bits.ue("chroma_sample_loc_type_bottom_field", 5))
    fields = bits.flag(), bits.flag(), bits.flag()
    display = window(bits) if bits.flag() else (0, 0, 0, 0)
    units, scale, ticks, hrd = _clock(bits, sub_layers) if bits.flag() else (0, 0, -1, ())
    restriction = _restriction(bits) if bits.flag() else ()
    return Vui(aspect, sar, overscan, *signal, location, *fields, display, units, scale, ticks, hrd, restriction)


def _signal(bits: Bits) -> tuple[int, bool, int, int, int]:
    video_format, full = bits.u(3), bits.flag()
    colours = (bits.u(8), bits.u(8), bits.u(8)) if bits.flag() else (2, 2, 2)
    return video_format, full, *colours


def _clock(bits: Bits, sub_layers: int) -> tuple[int, int, int, Hrd]:
    units, scale = bits.u(32), bits.u(32)
    ticks = bits.ue("vui_num_ticks_poc_diff_one_minus1", _UE) if bits.flag() else -1
    return units, scale, ticks, _hrd(bits, sub_layers) if bits.flag() else ()


def _restriction(bits: Bits) -> tuple[int, ...]:
    flags = bits.u(1), bits.u(1), bits.u(1)
    limits = (("min_spatial_segmentation_idc", 4095), ("max_bytes_per_pic_denom", 16), ("max_bits_per_min_cu_denom", 16))
    vectors = (("log2_max_mv_length_horizontal", 16), ("log2_max_mv_length_vertical", 16))
    return *flags, *(bits.ue(name, most) for name, most in (*limits, *vectors))


def _hrd(bits: Bits, sub_layers: int) -> Hrd:
    """Read hrd_parameters(1, sub_layers), E.2.2."""
    found = [bits.u(1), bits.u(1)]
    kinds, parts = sum(found), False
    if kinds:
        parts = bits.flag()
        lengths = (8, 5, 1, 5, 4, 4, 4, 5, 5, 5) if parts else (4, 4, 5, 5, 5)
        found += [parts, *(bits.u(length) for length in lengths)]
    for _ in range(sub_layers + 1):
        found += _sub_layer(bits, kinds, parts=parts)
    return tuple(found)


def _sub_layer(bits: Bits, kinds: int, *, parts: bool) -> list[int]:
    found = [bits.u(1)]
    if not found[0]:
        found.append(bits.u(1))
    low_delay = False
    if found[-1]:  # at a fixed rate, by itself or as all of the stream is
        found.append(bits.ue("elemental_duration_in_tc_minus1", 2047))
    else:
        low_delay = bits.flag()
        found.append(low_delay)
    count = 1
    if not low_delay:
        found.append(bits.ue("cpb_cnt_minus1", 31))
        count += found[-1]
    for _ in range(kinds * count):
        found += [bits.ue("bit_rate_value_minus1", _UE), bits.ue("cpb_size_value_minus1", _UE)]
        found += [bits.ue("cpb_size_du_value_minus1", _UE), bits.ue("bit_rate_du_value_minus1", _UE)] if parts else []
        found.append(bits.u(1))
    return found
