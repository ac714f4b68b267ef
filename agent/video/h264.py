"""H.264 parameter sets (ITU-T H.264 7.3.2): NAL unit in, frozen record out. Fields keep the standard's names.

Every function takes a whole NAL unit, header included, and raises BitstreamError for one that is cut off or out of range.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import BitstreamError
from agent.video import h264_vui
from agent.video.bits import Bits, unescaped
from agent.video.h264_vui import Vui
from agent.video.picture import CHROMA, bounded, cropped, rate, subsampling

SLICE, IDR, SPS, PPS, SPS_EXTENSION, SUBSET_SPS = 1, 5, 7, 8, 13, 15
_CHROMA_PROFILES = frozenset({100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135})
_NAMES = {
    44: "CAVLC 4:4:4 Intra",
    66: "Baseline",
    77: "Main",
    83: "Scalable Baseline",
    86: "Scalable High",
    88: "Extended",
    100: "High",
    110: "High 10",
    118: "Multiview High",
    122: "High 4:2:2",
    128: "Stereo High",
    134: "MFC High",
    135: "MFC Depth High",
    138: "Multiview Depth High",
    139: "Enhanced Multiview Depth High",
    244: "High 4:4:4 Predictive",
}
_INTRA = {110: "High 10 Intra", 122: "High 4:2:2 Intra", 244: "High 4:4:4 Intra"}
_SIDE_MBS = 2**16
_SE = 2**31 - 1
Lists = tuple[tuple[int, ...] | None, ...]
"""Scaling lists as they are written: None for one that falls back, () for the default one."""


@dataclass(frozen=True, slots=True)
class Sps:
    """A sequence parameter set, 7.3.2.1.1. `crop` is left, right, top, bottom in crop units."""

    profile_idc: int
    constraint_sets: int
    """The byte of constraint_set0_flag (0x80) .. constraint_set5_flag (0x04)."""
    level_idc: int
    seq_parameter_set_id: int
    chroma_format_idc: int
    separate_colour_plane_flag: bool
    bit_depth_luma_minus8: int
    bit_depth_chroma_minus8: int
    qpprime_y_zero_transform_bypass_flag: bool
    scaling_lists: Lists | None
    log2_max_frame_num_minus4: int
    pic_order_cnt_type: int
    log2_max_pic_order_cnt_lsb_minus4: int
    pic_order_cnt_cycle: tuple[int, ...]
    """Of type 1: delta_pic_order_always_zero_flag, both offsets, then offset_for_ref_frame[]."""
    max_num_ref_frames: int
    gaps_in_frame_num_allowed_flag: bool
    pic_width_in_mbs_minus1: int
    pic_height_in_map_units_minus1: int
    frame_mbs_only_flag: bool
    mb_adaptive_frame_field_flag: bool
    direct_8x8_inference_flag: bool
    crop: tuple[int, int, int, int]
    vui: Vui | None
    """None if there is none, or if it cannot be read: it changes nothing in how pictures are decoded."""

    @property
    def profile(self) -> str:
        """The name of the profile, by profile_idc and the constraints that make it another one (A.2)."""
        if self.profile_idc == 66 and self.constraint_sets & 0x40:
            return "Constrained Baseline"
        if self.constraint_sets & 0x10 and self.profile_idc in _INTRA:
            return _INTRA[self.profile_idc]
        return _NAMES.get(self.profile_idc, f"profile {self.profile_idc}")

    @property
    def level(self) -> str:
        """The level: `3.1`, `1b`."""
        old = self.profile_idc in {66, 77, 88}
        if (old and self.level_idc == 11 and self.constraint_sets & 0x10) or (not old and self.level_idc == 9):
            return "1b"
        return f"{self.level_idc // 10}.{self.level_idc % 10}"

    @property
    def _fields(self) -> int:
        return 1 if self.frame_mbs_only_flag else 2

    @property
    def width(self) -> int:
        """Columns of the cropped picture."""
        unit = 1 if self.separate_colour_plane_flag else subsampling(self.chroma_format_idc)[0]
        return cropped("width", (self.pic_width_in_mbs_minus1 + 1) * 16, self.crop[0] * unit, self.crop[1] * unit)

    @property
    def height(self) -> int:
        """Lines of the cropped frame, both fields together."""
        unit = (1 if self.separate_colour_plane_flag else subsampling(self.chroma_format_idc)[1]) * self._fields
        lines = (self.pic_height_in_map_units_minus1 + 1) * 16 * self._fields
        return cropped("height", lines, self.crop[2] * unit, self.crop[3] * unit)

    @property
    def chroma_format(self) -> str:
        """`4:2:0` and the like."""
        return CHROMA[self.chroma_format_idc]

    @property
    def bit_depth(self) -> int:
        """Bits of a luma sample."""
        return self.bit_depth_luma_minus8 + 8

    @property
    def fps(self) -> float | None:
        """Frames per second as the VUI has it, None if it does not say."""
        return rate(self.vui.time_scale, 2 * self.vui.num_units_in_tick) if self.vui else None


@dataclass(frozen=True, slots=True)
class Pps:
    """A picture parameter set, 7.3.2.2; slice groups (FMO) are checked, not kept."""

    pic_parameter_set_id: int
    seq_parameter_set_id: int
    entropy_coding_mode_flag: bool
    bottom_field_pic_order_in_frame_present_flag: bool
    num_slice_groups_minus1: int
    num_ref_idx_l0_default_active_minus1: int
    num_ref_idx_l1_default_active_minus1: int
    weighted_pred_flag: bool
    weighted_bipred_idc: int
    pic_init_qp_minus26: int
    pic_init_qs_minus26: int
    chroma_qp_index_offset: int
    deblocking_filter_control_present_flag: bool
    constrained_intra_pred_flag: bool
    redundant_pic_cnt_present_flag: bool
    transform_8x8_mode_flag: bool
    scaling_lists: Lists | None
    second_chroma_qp_index_offset: int


@dataclass(frozen=True, slots=True)
class SpsExtension:
    """The auxiliary pictures (alpha) that go with an SPS, 7.3.2.1.2."""

    seq_parameter_set_id: int
    aux_format_idc: int
    bit_depth_aux_minus8: int


def kind(unit: bytes) -> int:
    """Give nal_unit_type, 0 for an empty unit."""
    return unit[0] & 0x1F if unit else 0


def parse_sps(unit: bytes) -> Sps:
    """Read an SPS, or the part of a subset SPS (SVC, MVC) that is like one."""
    bits = Bits(unescaped(unit))
    bits.skip(8)
    profile_idc, constraints, level_idc = bits.u(8), bits.u(8), bits.u(8)
    sps_id = bits.ue("seq_parameter_set_id", 31)
    chroma = _chroma(bits) if profile_idc in _CHROMA_PROFILES else (1, False, 0, 0, False, None)
    log2_frame_num = bits.ue("log2_max_frame_num_minus4", 12)
    order = _order(bits)
    references, gaps = bits.ue("max_num_ref_frames", 16), bits.flag()
    width, height = (bits.ue(f"pic_{side}_minus1", _SIDE_MBS) for side in ("width_in_mbs", "height_in_map_units"))
    frames_only = bits.flag()
    bounded((width + 1) * 16, (height + 1) * 16 * (1 if frames_only else 2))
    adaptive, direct = not frames_only and bits.flag(), bits.flag()
    crop = _crop(bits)
    vui = h264_vui.parse(bits) if bits.flag() else None
    found = Sps(
        *(profile_idc, constraints, level_idc, sps_id, *chroma, log2_frame_num, *order, references, gaps),
        *(width, height, frames_only, adaptive, direct, crop, vui),
    )
    _ = found.width, found.height  # raise here, not at whoever asks
    return found


def _chroma(bits: Bits) -> tuple[int, bool, int, int, bool, Lists | None]:
    chroma = bits.ue("chroma_format_idc", 3)
    separate = chroma == 3 and bits.flag()
    luma, colour = (bits.ue(f"bit_depth_{name}_minus8", 6) for name in ("luma", "chroma"))
    bypass = bits.flag()
    return chroma, separate, luma, colour, bypass, _scaling(bits, 12 if chroma == 3 else 8) if bits.flag() else None


def _scaling(bits: Bits, count: int) -> Lists:
    """Read scaling lists (7.3.2.1.1.1): six of 4x4, then those of 8x8."""
    return tuple(_scaling_list(bits, 16 if i < 6 else 64) if bits.flag() else None for i in range(count))


def _scaling_list(bits: Bits, size: int) -> tuple[int, ...]:
    found: list[int] = []
    last = following = 8
    while len(found) < size:
        if following:
            following = (last + bits.se("delta_scale", -128, 127)) % 256
            if not following and not found:
                return ()
        last = following or last
        found.append(last)
    return tuple(found)


def _order(bits: Bits) -> tuple[int, int, tuple[int, ...]]:
    """Read how pictures are ordered: pic_order_cnt_type, its log2 or its cycle."""
    order = bits.ue("pic_order_cnt_type", 2)
    if order == 0:
        return 0, bits.ue("log2_max_pic_order_cnt_lsb_minus4", 12), ()
    if order == 2:
        return 2, 0, ()
    zero = int(bits.flag())
    offsets = [bits.se(f"offset_for_{name}", -_SE, _SE) for name in ("non_ref_pic", "top_to_bottom_field")]
    count = bits.ue("num_ref_frames_in_pic_order_cnt_cycle", 255)
    return 1, 0, (zero, *offsets, *(bits.se("offset_for_ref_frame", -_SE, _SE) for _ in range(count)))


def _crop(bits: Bits) -> tuple[int, int, int, int]:
    if not bits.flag():
        return 0, 0, 0, 0
    left, right, top, bottom = (bits.ue(f"frame_crop_{side}_offset", 2**20) for side in ("left", "right", "top", "bottom"))
    return left, right, top, bottom


def parse_sps_extension(unit: bytes) -> SpsExtension:
    """Read the extension that follows an SPS."""
    bits = Bits(unescaped(unit))
    bits.skip(8)
    sps_id, aux = bits.ue("seq_parameter_set_id", 31), bits.ue("aux_format_idc", 3)
    return SpsExtension(sps_id, aux, bits.ue("bit_depth_aux_minus8", 4) if aux else 0)


def parse_pps(unit: bytes, spss: dict[int, Sps] | None = None) -> Pps:
    """Read a PPS; `spss` by id tell how many scaling lists there are (8, if its SPS is not among them)."""
    bits = Bits(unescaped(unit))
    bits.skip(8)
    pps_id, sps_id = bits.ue("pic_parameter_set_id", 255), bits.ue("seq_parameter_set_id", 31)
    sps = (spss or {}).get(sps_id)
    entropy, order = bits.flag(), bits.flag()
    groups = bits.ue("num_slice_groups_minus1", 7)
    if groups:
        _slice_groups(bits, groups)
    l0, l1 = (bits.ue(f"num_ref_idx_{name}_default_active_minus1", 31) for name in ("l0", "l1"))
    weighted, bipred = bits.flag(), bits.u(2)
    qp, qs = bits.se("pic_init_qp_minus26", -62, 25), bits.se("pic_init_qs_minus26", -26, 25)
    offset = bits.se("chroma_qp_index_offset", -12, 12)
    flags = bits.flag(), bits.flag(), bits.flag()
    transform, lists, second = False, None, offset
    if bits.more():
        transform = bits.flag()
        eights = (6 if sps and sps.chroma_format_idc == 3 else 2) if transform else 0
        lists = _scaling(bits, 6 + eights) if bits.flag() else None
        second = bits.se("second_chroma_qp_index_offset", -12, 12)
    return Pps(
        *(pps_id, sps_id, entropy, order, groups, l0, l1, weighted, bipred, qp, qs, offset, *flags, transform, lists, second)
    )


def _slice_groups(bits: Bits, groups: int) -> None:
    """Read past the map of slice groups (Baseline and Extended alone; nobody's camera)."""
    mapping = bits.ue("slice_group_map_type", 6)
    units = 2**21
    if mapping == 0:
        for _ in range(groups + 1):
            bits.ue("run_length_minus1", units)
    elif mapping == 2:
        for _ in range(2 * groups):
            bits.ue("top_left, bottom_right", units)
    elif mapping in {3, 4, 5}:
        bits.skip(1)
        bits.ue("slice_group_change_rate_minus1", units)
    elif mapping == 6:
        bits.skip((bits.ue("pic_size_in_map_units_minus1", units) + 1) * groups.bit_length())


def pps_id_of_slice(head: bytes) -> int | None:
    """Give the id of the PPS that a slice names in its first bytes, None for a unit that is no slice (or one of nothing)."""
    if kind(head) not in {SLICE, IDR}:
        return None
    try:
        bits = Bits(unescaped(head[1:]))
        bits.ue("first_mb_in_slice", 2**20)
        bits.ue("slice_type", 9)
        return bits.ue("pic_parameter_set_id", 255)
    except BitstreamError:
        return None
