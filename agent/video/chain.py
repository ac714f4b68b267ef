"""Which way of decoding is to be used: those that know the codec, in order, each with a back-off of its own. Pure.

    hardware -> libavcodec or libdav1d -> an ffmpeg process

A stage that fails is left for the next one, and tried again after 10 s, 20 s, … 10 min as long as another one works; if none
does, after 0.2 s, 0.4 s, … 10 s. A stage that has worked for a minute has its failures forgiven.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass

from agent.errors import BadRequest
from agent.video.reading import Codec
from agent.video.steps import Form


@dataclass(frozen=True, slots=True)
class Stage:
    """What is known of a way of decoding.

    `plain`: H.264 of 8 bit 4:2:0 alone. `in_place`: goes on in another format without being opened anew. `at_once`: a picture
    comes back with the packet that completes it. `patience_s`: how long it may take to begin. `judges`: marks damaged pictures.
    """

    codecs: tuple[Codec, ...]
    plain: bool = False
    in_place: bool = True
    at_once: bool = True
    patience_s: float = 0.0
    judges: bool = True


_HARDWARE: tuple[Codec, ...] = ("h264", "hevc", "av1")
STAGES: dict[str, Stage] = {
    "cuvid": Stage(_HARDWARE, plain=True, in_place=False, patience_s=0.4),
    "v4l2m2m": Stage(("h264", "hevc"), in_place=False, patience_s=0.4),
    "qsv": Stage(_HARDWARE, plain=True, in_place=False, patience_s=0.4),
    "libavcodec": Stage(("h264", "hevc"), patience_s=0.25),
    "libdav1d": Stage(("av1",), patience_s=0.25),
    "ffmpeg": Stage(_HARDWARE, in_place=False, at_once=False, patience_s=1.5, judges=False),
}
"""In the order in which they are tried. v4l2m2m loses its buffers after some changes in place (raspberrypi/linux#3390)."""
_FIRST_S, _MOST_S = 10.0, 600.0
_URGENT_FIRST_S, _URGENT_MOST_S = 0.2, 10.0
_FORGIVEN_S = 60.0
_DOUBLINGS = 10


def known(name: str) -> None:
    """Raise BadRequest for a stage that is not one of STAGES."""
    if name not in STAGES:
        near = difflib.get_close_matches(name, STAGES, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise BadRequest(f"there is no way of decoding {name[:40]!r}{hint}, allowed: {', '.join(STAGES)}")


def order(codec: Codec, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Give the stages for a codec, of `names` in their order if there are any. Raises BadRequest."""
    for name in names:
        known(name)
    found = tuple(name for name in (names or STAGES) if codec in STAGES[name].codecs)
    if not found:
        raise BadRequest(f"none of {', '.join(names)} decodes {codec}")
    return found


@dataclass(slots=True)
class _Record:
    """How a stage has done."""

    failures: int = 0
    again_ns: int = 0
    urgent_ns: int = 0
    since_ns: int | None = None


class Chain:
    """Of one stream and codec."""

    def __init__(self, codec: Codec, names: Sequence[str] = ()) -> None:
        """Take those of `names` that know the codec, or the default order."""
        able = [name for name in names if codec in STAGES[name].codecs]
        self._records = {name: _Record() for name in order(codec, able)}

    def following(self, name: str, form: Form | None, now_ns: int) -> str | None:
        """Give another stage than `name` that is due: where none is, the stream may be at fault, and `name` stays."""
        due = (other for other, record in self._records.items() if record.again_ns <= now_ns and supports(other, form))
        return next((other for other in due if other != name), None)

    def best(self, form: Form | None, now_ns: int) -> str | None:
        """Give the first stage that is due; without one, the first that may be tried in need; else None."""
        able = [(name, record) for name, record in self._records.items() if supports(name, form)]
        due = [name for name, record in able if record.again_ns <= now_ns]
        need = [name for name, record in able if record.urgent_ns <= now_ns]
        return next(iter(due or need), None)

    def better(self, name: str, form: Form | None, now_ns: int) -> str | None:
        """Give a stage before `name` that is due again."""
        for earlier, record in self._records.items():
            if earlier == name:
                return None
            if supports(earlier, form) and record.again_ns <= now_ns:
                return earlier
        return None

    def failed(self, name: str, now_ns: int) -> None:
        """Note that a stage could not be opened, or had to be left."""
        record = self._records[name]
        record.since_ns = None
        factor = 2 ** min(record.failures, _DOUBLINGS)
        record.failures += 1
        record.again_ns = now_ns + int(min(_MOST_S, _FIRST_S * factor) * 1e9)
        record.urgent_ns = now_ns + int(min(_URGENT_MOST_S, _URGENT_FIRST_S * factor) * 1e9)

    def good(self, name: str, now_ns: int) -> None:
        """Note that a stage gave a sound picture."""
        record = self._records[name]
        if record.since_ns is None:
            record.since_ns = now_ns
        elif record.failures and now_ns - record.since_ns > _FORGIVEN_S * 1e9:
            record.failures = 0


def supports(name: str, form: Form | None) -> bool:
    """Tell whether a stage can decode pictures of this form, as far as it is known."""
    if form is None or not STAGES[name].plain or form.codec != "h264":
        return True
    return form.chroma_format in {"4:2:0", "4:0:0"} and form.bit_depth == 8
