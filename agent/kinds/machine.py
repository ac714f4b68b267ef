"""The whole machine: `machine.pressure`. Subject: `psi`. Cumulative, from /proc/pressure; never recorded."""

from __future__ import annotations

from typing import TypedDict


class Pressure(TypedDict):
    """Microseconds since boot in which at least one task (`some`), or every one that was not idle (`full`), was held up."""

    cpu_some_us_total: float
    memory_full_us_total: float
    io_full_us_total: float


KINDS: dict[str, type] = {"machine.pressure": Pressure}
