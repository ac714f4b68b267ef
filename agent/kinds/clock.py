"""The wall clock: `clock.step`. Subject: `realtime`."""

from __future__ import annotations

from typing import TypedDict


class Step(TypedDict):
    """CLOCK_REALTIME was set: at boot on a box without a battery-backed clock, or by hand."""

    step_s: float
    """Forward is positive. Times before it were wrong by this much."""
    wall_s: float
    """Seconds since the epoch after the step."""


KINDS: dict[str, type] = {"clock.step": Step}
