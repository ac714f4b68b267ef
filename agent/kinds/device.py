"""Devices that must be there: `device.*`. Subject: the name of the `[[device]]`."""

from __future__ import annotations

from typing import TypedDict


class Gone(TypedDict):
    """There is no device at its port (any more)."""

    port: str
    """Stable USB port path."""
    what: str
    """What it called itself when it was last seen."""
    workload: str | None
    """The `[[workload]]` that it serves."""


class Back(TypedDict):
    """There is a device at its port again."""

    port: str
    what: str
    workload: str | None


KINDS: dict[str, type] = {"device.gone": Gone, "device.back": Back}
