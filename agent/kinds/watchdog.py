"""Watchdogs: `watchdog.armed`, `.missed`, `.recovered`, `.pretimeout` and `.closed`. Subject: the device, or `feeding`."""

from __future__ import annotations

from typing import TypedDict


class Armed(TypedDict):
    """agentd has opened a watchdog: from now on the machine is reset if it is not fed."""

    ttl_s: float
    """The time-out as the driver gave it back."""
    pretimeout_s: int
    evidence: str
    """How a pretimeout is kept: fd, kmsg, pstore or none."""
    nowayout: bool | None
    """It cannot be stopped any more."""


class Missed(TypedDict):
    """No feed for half of the time-out, as required work has not reported. Subject: `feeding`."""

    missing: list[str]
    silent_s: float
    """Since the last feed."""
    left_s: float
    """Until the first watchdog resets the machine."""


class Recovered(TypedDict):
    """Feeding goes on. Subject: `feeding`."""

    missing: list[str]
    """Who had been missed."""


class Pretimeout(TypedDict):
    """The watchdog is about to reset the machine."""

    evidence: str
    left_s: float


class Closed(TypedDict):
    """A watchdog is not ours: it could not be opened, failed, or was given back."""

    condition: str
    """busy, forbidden, absent, failed, lost or closed."""
    reason: str


KINDS: dict[str, type] = {
    "watchdog.armed": Armed,
    "watchdog.missed": Missed,
    "watchdog.recovered": Recovered,
    "watchdog.pretimeout": Pretimeout,
    "watchdog.closed": Closed,
}
