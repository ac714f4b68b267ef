"""The shapes of `agentctl video … --json`, for `agentctl schema`; more keys may come within version 1."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from agent.model import State
from agent.video.change import Class
from agent.video.reading import Codec, Kind


class ParameterSet(TypedDict):
    """One that came and differs from the one of its id before. What its kind does not say is null, and left out of a pps."""

    kind: Kind
    id: int
    codec: Codec
    packet: int
    """Index of the packet, in the order of decoding, from 0."""
    pts_s: float | None
    profile_idc: NotRequired[int | None]
    profile: NotRequired[str | None]
    level: NotRequired[str | None]
    """`3.1`."""
    width: NotRequired[int | None]
    height: NotRequired[int | None]
    """Of the picture that is shown: cropped."""
    chroma_format: NotRequired[Literal["4:0:0", "4:2:0", "4:2:2", "4:4:4"] | None]
    bit_depth: NotRequired[int | None]
    fps: NotRequired[float | None]
    sha256: str


class Format(TypedDict):
    """What pictures are, as the active SPS or sequence header says."""

    codec: Codec
    id: int
    profile_idc: int
    profile: str
    level: str
    width: int
    height: int
    chroma_format: Literal["4:0:0", "4:2:0", "4:2:2", "4:4:4"]
    bit_depth: int
    fps: float | None
    sha256: str


Change = TypedDict(
    "Change",
    {"packet": int, "pts_s": float | None, "class": Class, "from": Format, "to": Format, "fields": list[str]},
)
Change.__doc__ = "From this packet on another set is active; `fields` names what differs."


class Damage(TypedDict):
    """A parameter set that cannot be read, or the end of a file in the middle of something."""

    packet: int
    what: str


class Inspect(TypedDict):
    """`agentctl video inspect`. At most 1,000 rows of a kind are kept, `omitted` counts what came after."""

    schema: Literal["gatewarden.video.inspect/1"]
    state: State
    """degraded: the format or the codec changes, or something is damaged; critical: no picture could be decoded."""
    codec: Codec
    """Of the first picture, else what the container says."""
    packets: int
    parameter_sets: list[ParameterSet]
    changes: list[Change]
    repeats: int
    """Parameter sets that came again as they were."""
    damaged: list[Damage]
    omitted: int


class Shown(TypedDict):
    """From this frame on (counted from 0, in the order in which they are shown) pictures are like this."""

    from_frame: int
    width: int
    height: int
    pixel_format: str


Switch = TypedDict("Switch", {"at_s": float, "from": str, "to": str, "reason": str, "recovery_ms": float | None})
Switch.__doc__ = """A decoder that was left for another one, or for a new one of the same stage.

`recovery_ms` begins when the new parameter set came in, or the first packet whose picture the old decoder owes.
It ends with the first good picture, adapted; null: none came. Reasons: parameter_set, codec, unsupported, due again; silent,
errors, corrupt, geometry, hang, dead; or what another part of the machine reported, as gpu.xid.
"""


class Decode(TypedDict):
    """`agentctl video decode`. At most 1,000 rows of a kind are kept."""

    schema: Literal["gatewarden.video.decode/1"]
    frames_in: int
    """Packets that hold a picture."""
    frames_out: int
    formats: list[Shown]
    """As decoded."""
    output: list[Shown]
    """As given, after `--adapt`: one row, where it holds."""
    corrupt: int
    """Pictures that are damaged, or lean on a random-access point that is."""
    switches: list[Switch]
    parameter_changes: int
    """Of what is active, of any class."""
    segments_retried: int
    decoder: str
    """The stage in use at the end."""
    cpu_ms_per_frame: float | None
    """Of this process and the decoders it started; null without a frame."""


SHAPES: dict[str, type] = {"video.inspect": Inspect, "video.decode": Decode}
