"""What a change of parameter sets means for whoever decodes: compared field by field with the set that is active."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any, Literal

Class = Literal["identical", "cosmetic", "buffering", "format", "codec"]
CLASSES: tuple[Class, ...] = ("identical", "cosmetic", "buffering", "format", "codec")
"""In the order of what they ask for, least first.

identical: nothing. cosmetic: nothing either, decoders take it as it comes (VUI, scaling lists, initial QP). buffering: as many
more pictures may be held and reordered as hardware decoders reserve room for. format: another picture comes out (size, crop,
chroma, depth, profile, fields). codec: another decoder.
"""
_FORMAT = frozenset(
    {
        "profile",
        *("profile_idc", "chroma_format_idc", "separate_colour_plane_flag", "bit_depth_luma_minus8", "bit_depth_chroma_minus8"),
        *("pic_width_in_mbs_minus1", "pic_height_in_map_units_minus1", "frame_mbs_only_flag", "crop"),
        *("general_profile_idc", "pic_width_in_luma_samples", "pic_height_in_luma_samples", "conf_win", "field_seq_flag"),
        *("seq_profile", "max_frame_width_minus_1", "max_frame_height_minus_1", "high_bitdepth", "twelve_bit", "mono_chrome"),
        *("subsampling_x", "subsampling_y"),
    }
)
_BUFFERING = frozenset(
    {
        *("level_idc", "max_num_ref_frames", "pic_order_cnt_type", "max_num_reorder_frames", "max_dec_frame_buffering"),
        *("general_level_idc", "general_tier_flag", "buffering", "operating_points"),
    }
)


def differing(old: Any, new: Any) -> tuple[str, ...]:
    """Give the names of the fields in which two records of one type differ; `profile` too, which follows from several."""
    found = [*_differing(old, new)]
    if getattr(old, "profile", None) != getattr(new, "profile", None):
        found.append("profile")
    return tuple(dict.fromkeys(found))


def _differing(old: Any, new: Any) -> Iterator[str]:
    for field in fields(old):
        before, after = getattr(old, field.name), getattr(new, field.name)
        if before == after:
            continue
        kind = type(before if is_dataclass(before) else after)
        if is_dataclass(kind):  # one that is absent has the values that the standard infers
            yield from _differing(kind() if before is None else before, kind() if after is None else after)
        else:
            yield field.name


def graded(names: Iterable[str]) -> Class:
    """Give the class of a change in these fields."""
    changed = frozenset(names)
    if changed & _FORMAT:
        return "format"
    if changed & _BUFFERING:
        return "buffering"
    return "cosmetic" if changed else "identical"
