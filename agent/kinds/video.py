"""Streams: `video.*`. Subject: the workload that delivers the stream, which raises them itself (X_GATEWARDEN_EVENT)."""

from __future__ import annotations

from typing import NotRequired, TypedDict


class Lost(TypedDict):
    """A stream lost its sound, or nothing came in time; how it came to be seen is the workload's business."""

    stream: NotRequired[str]
    silent_s: NotRequired[float]
    """How long nothing had come by then."""


KINDS: dict[str, type] = {"video.audio_lost": Lost, "video.timeout": Lost}
