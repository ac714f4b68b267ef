"""Parameter sets of real encoders, read by us and by FFmpeg: every syntax element, and the picture that follows from them."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.video import hevc
from agent.video.reading import Codec, Record, Sequence, Unit, read, units
from tests.video import rare
from tests.video.encoded import Block, encode, probed, traced
from tests.video.syntax import elements
from tests.video.writing import annex_b

# What the oracle tells and a record does not keep: headers of units, flags that only announce another element, padding, and
# what stands in no class of change.
NOT_KEPT = re.compile(
    r"""forbidden_zero_bit|nal_ref_idc|nal_unit_type|nuh_\w+|rbsp_\w+|trailing_\w+|\w*reserved\w*|\w+_present_flag|emulation\w+
    |frame_cropping_flag|conformance_window_flag|default_display_window_flag|bitstream_restriction_flag|scaling_list_enabled_flag
    |\w*scaling_list\w*|pic_scaling_list.*|delta_scale|sps_extension\w*|\w+_extension_\w*flag|vps_base_layer\w+|vps_max_layer_id
    |vps_num_layer_sets_minus1|vps_poc\w+|vui_poc\w+|log2_parallel_merge\w+|sub_pic\w+|separate_colour_plane_flag
    |motion_vectors_over_pic_boundaries_flag|max_b\w+_denom|log2_max_mv\w+|loop_filter_across_tiles_enabled_flag
    |general_(max|intra|lower|one_picture|inbld)\w+|inter_ref_pic\w+|delta_\w+|num_(negative|positive)_pics|used_by\w+|abs_delta\w+
    |use_delta_flag|sub_layer\w+|frame_(width|height)_bits_minus_1|seq_choose_\w+|seq_force_\w+|frame_id_numbers\w+|(en|de)coder_buffer_delay|decoder_model\w+|buffer_\w+
    |initial_display\w+|num_units_in_decoding_tick|frame_presentation\w+
    |s[01]_\w+|pps_range\w+|log2_max_transform_skip\w+|cross_component\w+|chroma_qp_offset_list\w+|log2_sao\w+|low_delay\w+
    |bit_rate\w+|cpb_\w+|cbr_flag|tick_divisor\w+|du_cpb\w+|(initial_|au_)?cpb_\w+|dpb_output\w+|fixed_pic\w+|elemental\w+|\w+_length_minus1
    |transform_skip_\w+|implicit_rdpcm\w+|explicit_rdpcm\w+|extended_precision\w+|intra_smoothing\w+|high_precision\w+
    |slice_group\w+|run_length\w+|top_left|bottom_right|persistent_rice\w+|cabac_bypass\w+|num_ticks\w+|slice_segment_header\w+|sps_max_\w+|vps_max_\w+_(plus1|minus1|pics)""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Stream:
    """One way to call an encoder."""

    codec: Codec
    options: str = ""
    size: str = "64x64"
    pixels: str = "yuv420p"
    more: str = ""

    def data(self) -> bytes:
        """Encode it."""
        name = "aom" if self.more.startswith("-cpu-used") else self.codec
        return encode(name, self.options, self.size, self.pixels, self.more)

    @property
    def form(self) -> str:
        """FFmpeg's name of the raw form."""
        return {"h264": "h264", "hevc": "hevc", "av1": "obu"}[self.codec]


VUI = "range=pc:colorprim=bt709:transfer=bt709:colormatrix=bt709:overscan=show:chromaloc=2"
LISTS = ",".join(map(str, range(16, 32)))
STREAMS = [
    Stream("h264", more="-profile:v baseline"),
    Stream("h264", more="-profile:v main"),
    Stream("h264", "8x8dct=1:level=5.2:ref=16", "322x182"),
    Stream("h264", "8x8dct=1:level=1b:ref=1:bframes=0", "176x144"),
    Stream("h264", more="-profile:v baseline -level 9"),
    Stream("h264", pixels="yuv420p10le"),
    Stream("h264", pixels="yuv422p", size="130x94"),
    Stream("h264", pixels="yuv422p10le"),
    Stream("h264", pixels="yuv444p", size="127x93"),
    Stream("h264", pixels="yuv444p10le"),
    Stream("h264", pixels="gray", size="98x50"),
    Stream("h264", "qp=0"),
    Stream("h264", "interlaced=1", "322x180"),
    Stream("h264", "tff=1:fake-interlaced=1", "320x192"),
    Stream("h264", "cqm=jvt:8x8dct=1"),
    Stream("h264", f"8x8dct=1:cqm4={LISTS}:sps-id=7"),
    Stream("h264", f"8x8dct=1:cqm4={LISTS}", pixels="yuv444p"),
    Stream("h264", f"nal-hrd=vbr:vbv-maxrate=500:vbv-bufsize=500:{VUI}:sar=4/3:pic-struct=1"),
    Stream("h264", "nal-hrd=cbr:bitrate=500:vbv-maxrate=500:vbv-bufsize=500:overscan=crop:sar=17/19:videoformat=ntsc"),
    Stream("h264", "bframes=4:b-pyramid=normal:open-gop=1:weightp=2:slices=2:constrained-intra=1:deblock=1,1"),
    Stream("h264", "bluray-compat=1:stitchable=1:force-cfr=1:intra-refresh=1"),
    Stream("hevc"),
    Stream("hevc", "ref=5:bframes=4:b-adapt=0:level-idc=6.2:high-tier=1", "322x182"),
    Stream("hevc", pixels="yuv420p10le"),
    Stream("hevc", pixels="yuv420p12le"),
    Stream("hevc", pixels="yuv422p", size="130x94"),
    Stream("hevc", pixels="yuv444p", size="126x92"),
    Stream("hevc", pixels="yuv444p12le"),
    Stream("hevc", pixels="gray", size="98x50"),
    Stream("hevc", "scaling-list=default:amp=1:rect=1:no-strong-intra-smoothing=1:no-sao=1"),
    Stream("hevc", "hrd=1:vbv-maxrate=1000:vbv-bufsize=1000:temporal-layers=2:bframes=3"),
    Stream(
        "hevc",
        "hrd=1:bitrate=500:strict-cbr=1:vbv-maxrate=500:vbv-bufsize=500:range=full:colorprim=bt2020:transfer=smpte2084:"
        "colormatrix=bt2020nc:overscan=crop:chromaloc=2:sar=17\\:19:videoformat=pal",
    ),
    Stream("hevc", "multi-pass-opt-rps=1:bframes=3:keyint=3:b-adapt=0"),
    Stream("hevc", "interlace=tff", "128x96"),
    Stream("hevc", "display-window=2,4,6,8"),
    Stream("hevc", "cbqpoffs=3:crqpoffs=-4:tskip=1:constrained-intra=1:deblock=2\\:-1:wpp=0:signhide=0:lossless=1"),
    Stream("hevc", "ctu=16:min-cu-size=8:max-tu-size=16:tu-inter-depth=3:tu-intra-depth=2:qg-size=16:weightb=1:weightp=0"),
    Stream("av1"),
    Stream("av1", "keyint=2:film-grain=8", "322x182", "yuv420p10le"),
    Stream("av1", "enable-overlays=1:superres-mode=1:superres-denom=12:enable-restoration=1", "128x128"),
    Stream("av1", pixels="yuv444p", more="-cpu-used 8 -usage realtime"),
    Stream("av1", pixels="yuv422p12le", more="-cpu-used 8 -usage realtime"),
    Stream("av1", pixels="gray", size="98x50", more="-cpu-used 8 -usage realtime"),
    Stream("av1", pixels="gbrp", more="-cpu-used 8 -usage realtime -color_primaries bt709 -color_trc iec61966-2-1"),
    Stream("av1", more="-cpu-used 8 -still-picture 1 -frames:v 1"),
    Stream("av1", "timing-info=model", more="-cpu-used 8 -usage realtime"),
    Stream("av1", "timing-info=constant:set-tier-mask=1:target-seq-level-idx=18", more="-cpu-used 8 -usage realtime"),
]
CHROMA = {"4:0:0": "(gray|420)", "4:2:0": "420", "4:2:2": "422", "4:4:4": "444"}


def records(codec: Codec, data: bytes) -> list[tuple[Unit, Record]]:
    """Read all parameter sets of a raw stream, in their order."""
    spss: dict[int, Record] = {}
    found = []
    for unit in units(codec, data):
        number, record = read(codec, unit, spss)
        if unit.kind == "sps":
            spss[number] = record
        found.append((unit, record))
    return found


def agree(record: Record, block: Block) -> None:
    """Hold a record against the oracle's reading of the same set."""
    found = elements(record)
    differ = {name: (found[name], value) for name, value in block.elements.items() if found.get(name, value) != value}
    assert not differ, f"{block.kind}: (ours, theirs) {differ}"
    unknown = {name for name in block.elements if name not in found and not NOT_KEPT.fullmatch(name.partition("[")[0])}
    assert not unknown, f"{block.kind}: neither kept nor named as not kept: {unknown}"
    if block.elements.get("vui_hrd_parameters_present_flag"):
        names = [name for name, _value in block.order]
        values = [value for _name, value in block.order]
        hrd = values[names.index("nal_hrd_parameters_present_flag") : names.index("bitstream_restriction_flag")]
        assert isinstance(record, hevc.Sps)
        assert record.vui is not None
        assert list(record.vui.hrd) == hrd


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: f"{stream.codec} {stream.options} {stream.pixels} {stream.more}")
def test_every_syntax_element(stream: Stream, tmp_path: Path) -> None:
    """Pins that each element that FFmpeg traces is kept with its value, or is named above as one that is not."""
    data = stream.data()
    ours, theirs = records(stream.codec, data), list(traced(data, stream.form, tmp_path))
    assert [unit.kind for unit, _record in ours] == [block.kind for block in theirs]
    assert ours
    for (_unit, record), block in zip(ours, theirs, strict=True):
        agree(record, block)


@pytest.mark.parametrize("stream", STREAMS, ids=lambda stream: f"{stream.codec} {stream.options} {stream.pixels} {stream.more}")
def test_the_picture(stream: Stream, tmp_path: Path) -> None:
    """Pins size, profile, level, chroma format and depth to what ffprobe says."""
    data = stream.data()
    told = probed(data, stream.form, tmp_path)
    sequence = next(record for _unit, record in records(stream.codec, data) if isinstance(record, Sequence))
    assert (str(sequence.width), str(sequence.height)) == (told["width"], told["height"])
    assert sequence.profile.removesuffix(" Intra") in {told["profile"], told["profile"].removesuffix(" Intra")}
    level = float("1.1" if sequence.level == "1b" else sequence.level)
    scale = {"h264": lambda: level * 10, "hevc": lambda: level * 30, "av1": lambda: (int(level) - 2) * 4 + level % 1 * 10}
    assert round(scale[stream.codec]()) == int(told["level"].replace("9", "11") if sequence.level == "1b" else told["level"])
    pixels = told["pix_fmt"]
    assert re.search(CHROMA[sequence.chroma_format], pixels.replace("gbrp", "yuv444p"))
    depth = re.search(r"(\d+)[lb]e$", pixels.replace("gray", "p"))
    assert sequence.bit_depth == (int(depth[1]) if depth else 8)


RARE: dict[str, tuple[Codec, Callable[[int], bytes]]] = {
    "h264 sps": ("h264", rare.h264_sps),
    "h264 pps": ("h264", rare.h264_pps),
    "hevc sps": ("hevc", rare.hevc_sps),
    "hevc pps": ("hevc", rare.hevc_pps),
    "av1": ("av1", rare.av1_header),
}


@pytest.mark.parametrize("name", RARE)
def test_what_hardly_an_encoder_writes(name: str, tmp_path: Path) -> None:
    """Pins everything that the standards allow before the last element that is kept: 50 sets at random, read by both."""
    codec, make = RARE[name]
    sets = [make(seed) for seed in range(50)]
    stream = Stream(codec, size="352x288")
    data = stream.data() + (b"".join(sets) if codec == "av1" else annex_b(*sets))
    ours, theirs = records(codec, data), list(traced(data, stream.form, tmp_path))
    assert len(ours) == len(theirs)
    for (_unit, record), block in list(zip(ours, theirs, strict=True))[-50:]:
        agree(record, block)
