"""HEVC parameter sets (ITU-T H.265 7.3.2): NAL unit in, frozen record out. Fields keep the standard's names.

Every function takes a whole NAL unit, header included, and raises BitstreamError for one that is cut off or out of range. What
comes after the parts kept here (extensions for 3D, screen content and several layers) is not read.
"""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import BitstreamError
from agent.video import hevc_sets, hevc_vui
from agent.video.bits import Bits, unescaped
from agent.video.hevc_sets import Lists, Tier
from agent.video.hevc_vui import Vui
from agent.video.picture import CHROMA, bounded, cropped, rate, subsampling

VPS, SPS, PPS = 32, 33, 34
_HEADER_BITS = 16
_LAST_SLICE, _IRAP = 9, range(16, 24)
_SLICES = frozenset({*range(_LAST_SLICE + 1), *range(16, 22)})
_SIDE = 2**16
_EXPLICIT_CHROMA = 3


@dataclass(frozen=True, slots=True)
class Vps:
    """A video parameter set, 7.3.2.1, up to its clock."""

    vps_video_parameter_set_id: int
    vps_max_layers_minus1: int
    vps_max_sub_layers_minus1: int
    vps_temporal_id_nesting_flag: bool
    tier: Tier
    buffering: hevc_sets.Buffering
    vps_num_units_in_tick: int
    vps_time_scale: int

    @property
    def profile(self) -> str:
        """The name of the profile."""
        return self.tier.profile

    @property
    def profile_idc(self) -> int:
        """general_profile_idc."""
        return self.tier.general_profile_idc

    @property
    def level(self) -> str:
        """The level: `3.1`."""
        return self.tier.level

    @property
    def fps(self) -> float | None:
        """Pictures per second, None if it does not say."""
        return rate(self.vps_time_scale, self.vps_num_units_in_tick)


@dataclass(frozen=True, slots=True)
class Sps:
    """A sequence parameter set, 7.3.2.2. `conf_win` is left, right, top, bottom in chroma samples."""

    sps_video_parameter_set_id: int
    sps_max_sub_layers_minus1: int
    sps_temporal_id_nesting_flag: bool
    tier: Tier
    sps_seq_parameter_set_id: int
    chroma_format_idc: int
    separate_colour_plane_flag: bool
    pic_width_in_luma_samples: int
    pic_height_in_luma_samples: int
    conf_win: tuple[int, int, int, int]
    bit_depth_luma_minus8: int
    bit_depth_chroma_minus8: int
    log2_max_pic_order_cnt_lsb_minus4: int
    buffering: hevc_sets.Buffering
    blocks: tuple[int, ...]
    """The six fields from log2_min_luma_coding_block_size_minus3 to max_transform_hierarchy_depth_intra."""
    scaling_lists: Lists | None
    """Empty: those of the standard; None: none."""
    amp_enabled_flag: bool
    sample_adaptive_offset_enabled_flag: bool
    pcm: tuple[int, ...]
    num_short_term_ref_pic_sets: int
    long_term: tuple[tuple[int, bool], ...]
    sps_temporal_mvp_enabled_flag: bool
    strong_intra_smoothing_enabled_flag: bool
    vui: Vui | None
    """None if there is none, or if it cannot be read: it changes nothing in how pictures are decoded."""

    @property
    def profile(self) -> str:
        """The name of the profile."""
        return self.tier.profile

    @property
    def profile_idc(self) -> int:
        """general_profile_idc."""
        return self.tier.general_profile_idc

    @property
    def level(self) -> str:
        """The level: `3.1`."""
        return self.tier.level

    @property
    def width(self) -> int:
        """Columns of the cropped picture."""
        unit = 1 if self.separate_colour_plane_flag else subsampling(self.chroma_format_idc)[0]
        return cropped("width", self.pic_width_in_luma_samples, self.conf_win[0] * unit, self.conf_win[1] * unit)

    @property
    def height(self) -> int:
        """Lines of the cropped picture."""
        unit = 1 if self.separate_colour_plane_flag else subsampling(self.chroma_format_idc)[1]
        return cropped("height", self.pic_height_in_luma_samples, self.conf_win[2] * unit, self.conf_win[3] * unit)

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
        """Pictures per second as the VUI has it, None if it does not say."""
        return rate(self.vui.vui_time_scale, self.vui.vui_num_units_in_tick) if self.vui else None


@dataclass(frozen=True, slots=True)
class Pps:
    """A picture parameter set, 7.3.2.3, up to its scaling lists."""

    pps_pic_parameter_set_id: int
    pps_seq_parameter_set_id: int
    dependent_slice_segments_enabled_flag: bool
    output_flag_present_flag: bool
    num_extra_slice_header_bits: int
    sign_data_hiding_enabled_flag: bool
    cabac_init_present_flag: bool
    num_ref_idx_l0_default_active_minus1: int
    num_ref_idx_l1_default_active_minus1: int
    init_qp_minus26: int
    constrained_intra_pred_flag: bool
    transform_skip_enabled_flag: bool
    diff_cu_qp_delta_depth: int
    """-1 where cu_qp_delta_enabled_flag is 0."""
    pps_cb_qp_offset: int
    pps_cr_qp_offset: int
    flags: tuple[bool, bool, bool, bool]
    """Chroma offsets in slices, weighted_pred_flag, weighted_bipred_flag, transquant_bypass_enabled_flag."""
    tiles: tuple[int, ...]
    """Columns, rows, uniform or not, then their sizes; empty for one tile."""
    entropy_coding_sync_enabled_flag: bool
    deblocking: tuple[int, ...]
    """Loop filter across slices; then, where it is controlled: override, disabled, beta and tc offsets."""
    scaling_lists: Lists | None


def kind(unit: bytes) -> int:
    """Give nal_unit_type; -1 for an empty unit, and for one of another layer, which is not ours to decode."""
    if len(unit) < 2 or unit[0] & 1 or unit[1] >> 3:
        return -1
    return unit[0] >> 1


def parse_vps(unit: bytes) -> Vps:
    """Read a VPS."""
    bits = _opened(unit)
    vps_id = bits.u(4)
    bits.skip(2)
    layers, sub_layers, nesting = bits.u(6), _sub_layers(bits), bits.flag()
    bits.skip(16)
    tier = hevc_sets.tier(bits, sub_layers)
    buffering = hevc_sets.buffering(bits, sub_layers)
    most_layer = bits.u(6)
    bits.skip(bits.ue("vps_num_layer_sets_minus1", 1023) * (most_layer + 1))
    ticks = (bits.u(32), bits.u(32)) if bits.flag() else (0, 0)
    return Vps(vps_id, layers, sub_layers, nesting, tier, buffering, *ticks)


def _opened(unit: bytes) -> Bits:
    bits = Bits(unescaped(unit))
    bits.skip(_HEADER_BITS)
    return bits


def _sub_layers(bits: Bits) -> int:
    found = bits.u(3)
    if found > 6:
        raise BitstreamError(f"max_sub_layers_minus1 is {found}, allowed: 0 .. 6")
    return found


def parse_sps(unit: bytes) -> Sps:
    """Read an SPS."""
    bits = _opened(unit)
    vps_id, sub_layers, nesting = bits.u(4), _sub_layers(bits), bits.flag()
    tier, sps_id = hevc_sets.tier(bits, sub_layers), bits.ue("sps_seq_parameter_set_id", 15)
    picture = _picture(bits)
    depths = bits.ue("bit_depth_luma_minus8", 8), bits.ue("bit_depth_chroma_minus8", 8)
    order = bits.ue("log2_max_pic_order_cnt_lsb_minus4", 12)
    buffering = hevc_sets.buffering(bits, sub_layers)
    blocks = tuple(bits.ue(name, 5) for name in hevc_sets.BLOCKS)
    lists = (hevc_sets.scaling(bits) if bits.flag() else ()) if bits.flag() else None
    tools = bits.flag(), bits.flag(), hevc_sets.pcm(bits) if bits.flag() else ()
    sets, long_term = hevc_sets.short_term(bits), hevc_sets.long_term(bits, order + 4) if bits.flag() else ()
    motion, smoothing = bits.flag(), bits.flag()
    vui = hevc_vui.parse(bits, sub_layers) if bits.flag() else None
    found = Sps(
        *(vps_id, sub_layers, nesting, tier, sps_id, *picture, *depths, order, buffering, blocks, lists, *tools),
        *(sets, long_term, motion, smoothing, vui),
    )
    _ = found.width, found.height  # raise here, not at whoever asks
    return found


def _picture(bits: Bits) -> tuple[int, bool, int, int, tuple[int, int, int, int]]:
    chroma = bits.ue("chroma_format_idc", _EXPLICIT_CHROMA)
    separate = chroma == _EXPLICIT_CHROMA and bits.flag()
    width, height = (bits.ue(f"pic_{side}_in_luma_samples", _SIDE, 1) for side in ("width", "height"))
    bounded(width, height)
    return chroma, separate, width, height, hevc_sets.window(bits) if bits.flag() else (0, 0, 0, 0)


def parse_pps(unit: bytes) -> Pps:
    """Read a PPS."""
    bits = _opened(unit)
    ids = bits.ue("pps_pic_parameter_set_id", 63), bits.ue("pps_seq_parameter_set_id", 15)
    dependent, output, extra = bits.flag(), bits.flag(), bits.u(3)
    hiding = bits.flag(), bits.flag()
    l0, l1 = (bits.ue(f"num_ref_idx_{name}_default_active_minus1", 14) for name in ("l0", "l1"))
    qp = bits.se("init_qp_minus26", -74, 25)
    intra, skipping = bits.flag(), bits.flag()
    depth = bits.ue("diff_cu_qp_delta_depth", 3) if bits.flag() else -1
    cb, cr = (bits.se(f"pps_{plane}_qp_offset", -12, 12) for plane in ("cb", "cr"))
    flags = bits.flag(), bits.flag(), bits.flag(), bits.flag()
    tiled, synchronised = bits.flag(), bits.flag()
    tiles = hevc_sets.tiles(bits) if tiled else ()
    head = *ids, dependent, output, extra, *hiding
    deblocking = hevc_sets.deblocking(bits)
    lists = hevc_sets.scaling(bits) if bits.flag() else None
    return Pps(*head, l0, l1, qp, intra, skipping, depth, cb, cr, flags, tiles, synchronised, deblocking, lists)


def pps_id_of_slice(head: bytes) -> int | None:
    """Give the id of the PPS that a picture's first slice names in its first bytes, None for any other unit."""
    if kind(head) not in _SLICES:
        return None
    try:
        bits = Bits(unescaped(head[2:]))
        if not bits.flag():  # first_slice_segment_in_pic_flag
            return None
        bits.skip(1 if kind(head) in _IRAP else 0)
        return bits.ue("slice_pic_parameter_set_id", 63)
    except BitstreamError:
        return None
