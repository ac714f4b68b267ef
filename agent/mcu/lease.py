"""The lease as the MCU granted it last, and the words for what is wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agent.mcu.wire import Phase, Result

Link = Literal["absent", "opening", "hello", "leased", "lost", "incompatible", "frozen"]
# What to ask for outside RUN, whose ttl is adaptive; the MCU grants at most what its own table says.
ASKED_MS = {Phase.BOOT: 600_000, Phase.UPDATE: 900_000, Phase.SHUTDOWN: 180_000, Phase.MAINT: 1_800_000}
REFUSED = {
    Result.EXHAUSTED: (
        "the absolute maximum of this phase is used up",
        "only work in phase RUN renews it now: agentctl status",
    ),
    Result.CYCLING: ("the microcontroller is about to cycle the power", ""),
    Result.BAD_PHASE: ("its firmware does not know this phase", "update the firmware of the microcontroller"),
}
ANEW = frozenset({Result.BAD_TOKEN, Result.STALE, Result.NO_SESSION})
"""Refusals after which HELLO begins a new session: one of both ends was reset."""


def expired(phase: Phase) -> tuple[str, str]:
    """Give why a lease ran out, and what to do."""
    if phase is Phase.RUN:
        return "the lease expired: required work did not report in time", "agentctl workloads"
    return f"the lease expired: phase {phase.name} has its absolute maximum in the microcontroller", "agentctl status"


@dataclass(slots=True)
class Lease:
    """Times are CLOCK_MONOTONIC."""

    token: int = 0
    """What the next renewal must carry; 0 before HELLO."""
    phase: Phase = Phase.BOOT
    granted_ms: int = 0
    until_ns: int = 0
    """When it expires, told too early rather than too late; 0 before the first ACK."""
    margin_ms: int | None = None
    """What the MCU had left when it was renewed last."""
    renewed_ns: int = 0
    """When the last accepted renewal was sent."""
    acks: int = 0
    refused: int = 0
    """Renewals that the MCU did not take."""

    def left_s(self, now_ns: int) -> float | None:
        """Give what is left now; None before the first ACK."""
        return (self.until_ns - now_ns) / 1e9 if self.until_ns else None
