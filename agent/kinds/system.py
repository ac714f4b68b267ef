"""The machine as a whole: `system.reset`. Subject: `system`."""

from __future__ import annotations

from typing import TypedDict


class Reset(TypedDict):
    """Why the machine started last; told once per boot."""

    cause: str
    """panic, watchdog, power_cut, operator_reboot, agent_reboot or unknown."""
    confidence: str
    """high, medium, low or none."""
    reason: str
    evidence: list[str]
    """Who said so: pstore, intent, shutdown, bootstatus:DEVICE, mcu:REASON."""
    before: str | None
    """The boot_id that ended."""
    uptime_s: float | None
    """How long that boot is known to have lasted."""


KINDS: dict[str, type] = {"system.reset": Reset}
