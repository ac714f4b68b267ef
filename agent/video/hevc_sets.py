"""Parts that HEVC's parameter sets share or are long in: profile and level, buffering, scaling lists, reference sets, tiles."""

from __future__ import annotations

from dataclasses import dataclass

from agent.errors import BitstreamError
from agent.video.bits import Bits

BLOCKS = (
    "log2_min_luma_coding_block_size_minus3",
    "log2_diff_max_min_luma_coding_block_size",
    "log2_min_luma_transform_block_size_minus2",
    "log2_diff_max_min_luma_transform_block_size",
    "max_transform_hierarchy_depth_inter",
    "max_transform_hierarchy_depth_intra",
)
_NAMES = {
    1: "Main",
    2: "Main 10",
    3: "Main Still Picture",
    4: "Rext",
    5: "High Throughput",
    6: "Multiview Main",
    7: "Scalable Main",
    8: "3D Main",
    9: "Screen-Extended Main",
    10: "Scalable RExt",
    11: "High Throughput Screen-Extended",
}
_DPB, _SETS, _LONG_TERM, _TILES = 16, 64, 32, 32
_CONSTRAINT_BITS, _SUB_PROFILE_BITS, _SUB_LEVEL_BITS = 48, 88, 8
_LATENCY = 2**32 - 2
Lists = tuple[tuple[int, ...], ...]
"""Scaling lists by size then matrix: (-1 - delta) for one that is like an earlier one, else its coefficients (DC first)."""
Buffering = tuple[tuple[int, int, int], ...]
"""For each sub-layer that is told: max_dec_pic_buffering_minus1, max_num_reorder_pics, max_latency_increase_plus1."""


@dataclass(frozen=True, slots=True)
class Tier:
    """Profile, tier and level of the whole stream (7.3.3); those of sub-layers are passed over."""

    general_profile_space: int
    general_tier_flag: bool
    general_profile_idc: int
    general_profile_compatibility_flags: int
    """32 flags, that of profile 0 first (most significant)."""
    constraints: int
    """48 bits: progressive, interlaced, non-packed, frame-only, then those of the profile."""
    general_level_idc: int

    @property
    def profile(self) -> str:
        """The name of the profile."""
        return _NAMES.get(self.general_profile_idc, f"profile {self.general_profile_idc}")

    @property
    def level(self) -> str:
        """The level: `3.1`; general_level_idc is 30 times that."""
        return f"{self.general_level_idc // 30}.{self.general_level_idc % 30 // 3}"


def tier(bits: Bits, sub_layers: int) -> Tier:
    """Read profile_tier_level(1, sub_layers)."""
    space, upper, profile, compatible = bits.u(2), bits.flag(), bits.u(5), bits.u(32)
    found = Tier(space, upper, profile, compatible, bits.u(_CONSTRAINT_BITS), bits.u(8))
    present = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.skip(2 * (8 - sub_layers))
    for with_profile, with_level in present:
        bits.skip(_SUB_PROFILE_BITS * with_profile + _SUB_LEVEL_BITS * with_level)
    return found


def buffering(bits: Bits, sub_layers: int) -> Buffering:
    """Read the sub-layer ordering info: of each, or of the highest alone."""
    count = sub_layers + 1 if bits.flag() else 1
    return tuple(
        (
            bits.ue("max_dec_pic_buffering_minus1", _DPB),
            bits.ue("max_num_reorder_pics", _DPB),
            bits.ue("max_latency_increase_plus1", _LATENCY),
        )
        for _ in range(count)
    )


def window(bits: Bits) -> tuple[int, int, int, int]:
    """Read four offsets of a window."""
    left, right, top, bottom = (bits.ue(f"win_{side}_offset", 2**20) for side in ("left", "right", "top", "bottom"))
    return left, right, top, bottom


def scaling(bits: Bits) -> Lists:
    """Read scaling_list_data(), 7.3.4: six lists of each size, but two of 32x32."""
    return tuple(_list(bits, size, matrix) for size in range(4) for matrix in range(0, 6, 3 if size == 3 else 1))


def _list(bits: Bits, size: int, matrix: int) -> tuple[int, ...]:
    if not bits.flag():
        return (-1 - bits.ue("scaling_list_pred_matrix_id_delta", matrix // 3 if size == 3 else matrix),)
    found: list[int] = []
    last = 8
    if size > 1:
        last = bits.se("scaling_list_dc_coef_minus8", -7, 247) + 8
        found.append(last)
    for _ in range(min(64, 1 << (4 + (size << 1)))):
        last = (last + bits.se("scaling_list_delta_coef", -128, 127)) % 256
        found.append(last)
    return tuple(found)


def pcm(bits: Bits) -> tuple[int, ...]:
    """Read the lengths and sizes of PCM samples, and whether they are filtered."""
    lengths = bits.u(4), bits.u(4)
    sizes = bits.ue("log2_min_pcm_luma_coding_block_size_minus3", 2), bits.ue("log2_diff_max_min_pcm_luma_coding_block_size", 2)
    return *lengths, *sizes, bits.u(1)


def short_term(bits: Bits) -> int:
    """Read past the short-term reference picture sets (7.3.7) and give their number: each can lean on the one before it."""
    count = bits.ue("num_short_term_ref_pic_sets", _SETS)
    deltas: tuple[int, ...] = ()
    for i in range(count):
        deltas = _leaning(bits, deltas) if i and bits.flag() else _standing(bits)
        if len(deltas) > _DPB:
            raise BitstreamError(f"a reference picture set of {len(deltas)} pictures, allowed: {_DPB}")
    return count


def _leaning(bits: Bits, deltas: tuple[int, ...]) -> tuple[int, ...]:
    """Read a set that is told by its difference to another one; give its distances, those before the picture first (7.4.8).

    How long it is follows from the values: a picture whose distance becomes 0 is not in it.
    """
    sign = -1 if bits.flag() else 1
    shift = sign * (bits.ue("abs_delta_rps_minus1", 2**15 - 1) + 1)
    kept = [delta + shift for delta in (*deltas, 0) if bits.flag() or bits.flag()]
    return (*sorted((delta for delta in kept if delta < 0), reverse=True), *sorted(delta for delta in kept if delta > 0))


def _standing(bits: Bits) -> tuple[int, ...]:
    counts = bits.ue("num_negative_pics", _DPB), bits.ue("num_positive_pics", _DPB)
    found: list[int] = []
    for count, sign in zip(counts, (-1, 1), strict=True):
        delta = 0
        for _ in range(count):
            delta += sign * (bits.ue("delta_poc_minus1", 2**15 - 1) + 1)
            bits.skip(1)
            found.append(delta)
    return tuple(found)


def long_term(bits: Bits, order_bits: int) -> tuple[tuple[int, bool], ...]:
    """Read the long-term reference pictures: lt_ref_pic_poc_lsb_sps, used_by_curr_pic_lt_sps_flag."""
    count = bits.ue("num_long_term_ref_pics_sps", _LONG_TERM)
    return tuple((bits.u(order_bits), bits.flag()) for _ in range(count))


def tiles(bits: Bits) -> tuple[int, ...]:
    """Read how a picture is cut into tiles."""
    columns, rows = bits.ue("num_tile_columns_minus1", _TILES), bits.ue("num_tile_rows_minus1", _TILES)
    uniform = bits.u(1)
    sizes = () if uniform else tuple(bits.ue("tile size minus 1", 2**16) for _ in range(columns + rows))
    bits.skip(1)
    return columns, rows, uniform, *sizes


def deblocking(bits: Bits) -> tuple[int, ...]:
    """Read how pictures are deblocked: the filter across slices, and what pictures may do about it."""
    across = bits.u(1)
    if not bits.flag():
        return (across,)
    override, disabled = bits.u(1), bits.u(1)
    offsets = () if disabled else (bits.se("pps_beta_offset_div2", -6, 6), bits.se("pps_tc_offset_div2", -6, 6))
    return across, override, disabled, *offsets
