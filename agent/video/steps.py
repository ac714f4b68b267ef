"""What a packet means for whoever decodes it: whether one may begin with it, and what comes out of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

from agent.ports import Packet
from agent.video import h264, hevc, nal
from agent.video.reading import CODECS, MOST_UNITS, Codec, Sequence
from agent.video.sets import Change, Sets

DEEPEST = 16
"""Pictures that H.264 and HEVC may hold back for the sake of their order (A.4.1 and A.4.2: MaxDpbSize)."""
_HEVC_IDR, _HEVC_IRAP = frozenset({16, 17, 18, 19, 20}), range(16, 24)


@dataclass(frozen=True, slots=True)
class Form:
    """What pictures the active SPS or sequence header announces.

    A decoder that crops less than it should gives up to `coded` samples; AV1 may change its size with each picture, up to it.
    """

    codec: Codec
    width: int
    height: int
    coded: tuple[int, int]
    chroma_format: str
    bit_depth: int
    reorder: int
    """Pictures that may be held back before the first one comes out."""

    def admits(self, width: int, height: int) -> bool:
        """Tell whether a picture of this size can be one of these."""
        least = (1, 1) if self.codec == "av1" else (self.width, self.height)
        return least[0] <= width <= self.coded[0] and least[1] <= height <= self.coded[1]


@dataclass(frozen=True, slots=True)
class Step:
    """One packet on its way to a decoder.

    `entry`: decoding may begin here; `closed`: and nothing after it leans on what was before. `headers` are the parameter sets
    that an entry does not bring with it. `change` is the change that takes effect here.
    """

    packet: Packet
    codec: Codec
    arrived_ns: int
    entry: bool
    closed: bool
    headers: bytes
    form: Form | None
    change: Change | None


class Steps:
    """Fed with every packet of a stream, in order."""

    def __init__(self, codec: str) -> None:
        """Begin with what the container says of the codec; the packets may know better."""
        self._form: Form | None = None
        self._of: Sequence | None = None
        self._named = codec
        self._sets = Sets(_known(codec))
        self._blind = False
        self.codec: Codec = self._sets.codec

    def step(self, packet: Packet, now_ns: int) -> Step:
        """Look at the next packet."""
        if packet.codec != self._named:  # another multiplex: nothing of before counts
            self._named = packet.codec
            self._sets.turn(_known(packet.codec))
        seen = self._sets.packet(packet.serial, packet.pts_s, packet.data)
        self.codec = self._sets.codec
        entry, closed = access(self.codec, packet)
        brings = bool(seen.arrived or seen.repeats)
        headers = b"" if brings or not entry else self._sets.headers()
        if brings or seen.damaged:
            self._blind = bool(seen.damaged)  # a set that we cannot read may be one that the decoder can
        form = None if self._blind else self._current()
        return Step(packet, self.codec, now_ns, entry, closed, headers, form, seen.change)

    def _current(self) -> Form | None:
        active = self._sets.active
        if active is None or active.sequence.codec != self.codec:
            return None
        if active.content is not self._of:
            self._of, self._form = active.content, announced(active.content)
        return self._form


def _known(codec: str) -> Codec:
    return next((known for known in CODECS if known == codec), "h264")


def announced(content: Sequence) -> Form:
    """Give what an SPS or sequence header announces."""
    told = (content.chroma_format, content.bit_depth)
    size = (content.width, content.height)
    if isinstance(content, h264.Sps):
        lines = (content.pic_height_in_map_units_minus1 + 1) * 16 * (1 if content.frame_mbs_only_flag else 2)
        return Form("h264", *size, ((content.pic_width_in_mbs_minus1 + 1) * 16, lines), *told, _h264_reorder(content))
    if isinstance(content, hevc.Sps):
        held = max((reorder for _pictures, reorder, _latency in content.buffering), default=DEEPEST)
        return Form("hevc", *size, (content.pic_width_in_luma_samples, content.pic_height_in_luma_samples), *told, held)
    return Form("av1", *size, size, *told, 0)


def _h264_reorder(content: h264.Sps) -> int:
    told = content.vui.max_num_reorder_frames if content.vui else -1
    if told >= 0:
        return told
    return 0 if content.profile_idc == 66 or content.pic_order_cnt_type == 2 else DEEPEST


def access(codec: Codec, packet: Packet) -> tuple[bool, bool]:
    """Tell whether decoding may begin with a packet, and whether no later one needs anything from before it."""
    if codec == "av1":
        brings = packet.key
        return brings, brings
    if codec == "h264":
        idr = any(h264.kind(head) == h264.IDR for head in _heads(packet.data))
        return idr or packet.key, idr
    kinds = {hevc.kind(head) for head in _heads(packet.data)}
    return any(kind in _HEVC_IRAP for kind in kinds), bool(kinds & _HEVC_IDR)


def _heads(data: bytes) -> islice[bytes]:
    return islice(nal.first(data, 2), MOST_UNITS)
