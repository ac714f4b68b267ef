"""The microcontroller: `mcu.version`, `mcu.reset`, `mcu.lease_lost`, `mcu.status`. Subject: `mcu`."""

from __future__ import annotations

from typing import TypedDict


class Version(TypedDict):
    """Which microcontroller answers, and what it speaks."""

    firmware: str
    """Its number, hexadecimal."""
    proto_min: int
    proto_max: int
    supported: bool
    """Whether one of its protocol versions is ours."""


class Reset(TypedDict):
    """The microcontroller has started since this agent heard from it last, or is met for the first time."""

    again: bool
    """It was known to run before: it reset itself meanwhile."""
    reset: str
    """Why it started: power_on, brownout, pin, software, watchdog (its own) or unknown."""
    power_reason: str
    """Why the gateway was powered: lease_expired, requested, mcu_start; none if not since its last RUN lease."""
    boots: int
    """How often it has started; this and the next two survive its resets, not the loss of its power."""
    cycles: int
    """Power cycles of the gateway."""
    expiries: int
    """How many of these because the lease expired."""


class LeaseLost(TypedDict):
    """The lease is not held any more."""

    why: str
    phase: str
    left_s: float
    """What was left of it."""


class Status(TypedDict):
    """What the microcontroller counts; told when it is first read, and when a counter of errors grew."""

    grown: dict[str, int]
    """The counters that grew since the last time, and by how much."""
    uptime_s: float
    tries: int
    """Power cycles since the gateway was last healthy."""
    next_off_s: float
    """How long the power would stay off if the lease expired now."""
    crc_errors: int
    frame_errors: int
    gaps: int
    repeats: int
    bad_tokens: int
    spi_timeouts: int
    i2c_timeouts: int
    overruns: int
    self_checks: int
    """Self-checks that failed."""


KINDS: dict[str, type] = {"mcu.version": Version, "mcu.reset": Reset, "mcu.lease_lost": LeaseLost, "mcu.status": Status}
