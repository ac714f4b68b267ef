"""A parsed record back to syntax elements, named as FFmpeg names them, so that each can be held against the oracle's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

Spread = Callable[[Any], dict[str, int]]


def named(*names: str) -> Spread:
    """Spread a tuple over names; a shorter one has only the first."""
    return lambda values: {name: int(value) for name, value in zip(names, values, strict=False)}


def _constraint_sets(value: int) -> dict[str, int]:
    return {f"constraint_set{i}_flag": value >> (7 - i) & 1 for i in range(6)}


def _compatible(value: int) -> dict[str, int]:
    return {f"general_profile_compatibility_flag[{i}]": value >> (31 - i) & 1 for i in range(32)}


def _constraints(value: int) -> dict[str, int]:
    names = ("progressive_source", "interlaced_source", "non_packed_constraint", "frame_only_constraint")
    return {f"general_{name}_flag": value >> (47 - i) & 1 for i, name in enumerate(names)}


def _buffering(prefix: str) -> Spread:
    names = ("max_dec_pic_buffering_minus1", "max_num_reorder_pics", "max_latency_increase_plus1")

    def spread(layers: Any) -> dict[str, int]:
        first = 0 if len(layers) > 1 else None  # one alone is that of the highest sub-layer, whose index the oracle knows
        return (
            {}
            if first is None
            else {
                f"{prefix}_{name}[{i}]": value
                for i, layer in enumerate(layers)
                for name, value in zip(names, layer, strict=True)
            }
        )

    return spread


def _hrd_h264(value: Any) -> dict[str, int]:
    nal, vcl = value
    found = {"nal_hrd_parameters_present_flag": int(bool(nal)), "vcl_hrd_parameters_present_flag": int(bool(vcl))}
    hrd = vcl or nal  # the oracle's later lines of the same names win
    if not hrd:
        return found
    count = (len(hrd) - 6) // 3
    found |= {"cpb_cnt_minus1": count - 1, "bit_rate_scale": hrd[0], "cpb_size_scale": hrd[1]}
    for i in range(count):
        names = (f"bit_rate_value_minus1[{i}]", f"cpb_size_value_minus1[{i}]", f"cbr_flag[{i}]")
        found |= dict(zip(names, hrd[2 + 3 * i : 5 + 3 * i], strict=True))
    ends = ("initial_cpb_removal_delay_length_minus1", "cpb_removal_delay_length_minus1", "dpb_output_delay_length_minus1")
    return found | dict(zip((*ends, "time_offset_length"), hrd[-4:], strict=True))


def _points(points: Any) -> dict[str, int]:
    found = {"operating_points_cnt_minus_1": len(points) - 1}
    for i, point in enumerate(points):
        found |= {f"operating_point_idc[{i}]": point.operating_point_idc, f"seq_level_idx[{i}]": point.seq_level_idx}
        found |= {f"seq_tier[{i}]": point.seq_tier} if point.seq_level_idx > 7 else {}
    return found


def _cycle(values: Any) -> dict[str, int]:
    names = ("delta_pic_order_always_zero_flag", "offset_for_non_ref_pic", "offset_for_top_to_bottom_field")
    found = {**named(*names)(values), "num_ref_frames_in_pic_order_cnt_cycle": max(len(values) - 3, 0)}
    return found | {f"offset_for_ref_frame[{i}]": value for i, value in enumerate(values[3:])}


def _tools(values: Any) -> dict[str, int]:
    """Three forms: with an order hint, without, and of a still picture."""
    names = [
        *("use_128x128_superblock", "enable_filter_intra", "enable_intra_edge_filter"),
        *("enable_interintra_compound", "enable_masked_compound", "enable_warped_motion", "enable_dual_filter"),
        *("enable_order_hint", "enable_jnt_comp", "enable_ref_frame_mvs", "", "", "order_hint_bits_minus_1"),
        *("enable_superres", "enable_cdef", "enable_restoration"),
    ]
    if len(values) == 13:
        names = [name for name in names if name not in {"enable_jnt_comp", "enable_ref_frame_mvs", "order_hint_bits_minus_1"}]
    if len(values) == 6:
        names = names[:3] + names[-3:]
    return {name: value for name, value in zip(names, values, strict=True) if name}


def _pcm(values: Any) -> dict[str, int]:
    sizes = ("log2_min_pcm_luma_coding_block_size_minus3", "log2_diff_max_min_pcm_luma_coding_block_size")
    depths = ("pcm_sample_bit_depth_luma_minus1", "pcm_sample_bit_depth_chroma_minus1")
    return {"pcm_enabled_flag": int(bool(values)), **named(*depths, *sizes, "pcm_loop_filter_disabled_flag")(values)}


def _tiles(values: Any) -> dict[str, int]:
    names = ("num_tile_columns_minus1", "num_tile_rows_minus1", "uniform_spacing_flag")
    found = {"tiles_enabled_flag": int(bool(values)), **named(*names)(values)}
    columns = values[0] if values else 0
    for i, value in enumerate(values[3:]):
        found[f"column_width_minus1[{i}]" if i < columns else f"row_height_minus1[{i - columns}]"] = value
    return found


def _deblocking(values: Any) -> dict[str, int]:
    names = ("deblocking_filter_override_enabled_flag", "pps_deblocking_filter_disabled_flag")
    offsets = ("pps_beta_offset_div2", "pps_tc_offset_div2")
    first = {"pps_loop_filter_across_slices_enabled_flag": values[0]}
    return {**first, "deblocking_filter_control_present_flag": int(len(values) > 1), **named(*names, *offsets)(values[1:])}


def _long_term(pictures: Any) -> dict[str, int]:
    found = {"num_long_term_ref_pics_sps": len(pictures)}
    for i, (order, used) in enumerate(pictures):
        found |= {f"lt_ref_pic_poc_lsb_sps[{i}]": order, f"used_by_curr_pic_lt_sps_flag[{i}]": int(used)}
    return found


SPREADS: dict[str, Spread] = {
    "crop": named(*(f"frame_crop_{side}_offset" for side in ("left", "right", "top", "bottom"))),
    "conf_win": named(*(f"conf_win_{side}_offset" for side in ("left", "right", "top", "bottom"))),
    "def_disp_win": named(*(f"def_disp_win_{side}_offset" for side in ("left", "right", "top", "bottom"))),
    "sar": named("sar_width", "sar_height"),
    "overscan": lambda value: {"overscan_info_present_flag": int(value > 0), "overscan_appropriate_flag": int(value == 2)},
    "chroma_sample_loc_type": named("chroma_sample_loc_type_top_field", "chroma_sample_loc_type_bottom_field"),
    "constraint_sets": _constraint_sets,
    "general_profile_compatibility_flags": _compatible,
    "constraints": _constraints,
    "pic_order_cnt_cycle": _cycle,
    "operating_points": _points,
    "tools": _tools,
    "frame_ids": named("delta_frame_id_length_minus_2", "additional_frame_id_length_minus_1"),
    "pcm": _pcm,
    "tiles": _tiles,
    "long_term": _long_term,
    "deblocking": _deblocking,
    "diff_cu_qp_delta_depth": lambda value: {"cu_qp_delta_enabled_flag": int(value >= 0), "diff_cu_qp_delta_depth": value},
    "blocks": named(
        *("log2_min_luma_coding_block_size_minus3", "log2_diff_max_min_luma_coding_block_size"),
        *("log2_min_luma_transform_block_size_minus2", "log2_diff_max_min_luma_transform_block_size"),
        *("max_transform_hierarchy_depth_inter", "max_transform_hierarchy_depth_intra"),
    ),
    "flags": named(
        *("pps_slice_chroma_qp_offsets_present_flag", "weighted_pred_flag", "weighted_bipred_flag"),
        "transquant_bypass_enabled_flag",
    ),
    "restriction": named(
        *("tiles_fixed_structure_flag", "motion_vectors_over_pic_boundaries_flag", "restricted_ref_pic_lists_flag"),
        *("min_spatial_segmentation_idc", "max_bytes_per_pic_denom", "max_bits_per_min_cu_denom"),
        *("log2_max_mv_length_horizontal", "log2_max_mv_length_vertical"),
    ),
}


def elements(record: Any) -> dict[str, int]:
    """Give the syntax elements that a record keeps."""
    found: dict[str, int] = {}
    if hasattr(record, "vui"):
        found["vui_parameters_present_flag"] = int(record.vui is not None)
    for name, value in _leaves(record):
        prefix = "vps" if type(record).__name__ == "Vps" else "sps"
        if name == "buffering":
            found |= _buffering(prefix)(value)
        elif name == "hrd":
            found |= _hrd_h264(value) if value and isinstance(value[0], tuple) else {}
        elif name in SPREADS:
            found |= SPREADS[name](value)
        elif isinstance(value, int):
            found[name] = int(value)
    return found


def _leaves(record: Any) -> Iterator[tuple[str, Any]]:
    for field in fields(record):
        value = getattr(record, field.name)
        if is_dataclass(value):
            yield from _leaves(value)
        else:
            yield field.name, value
