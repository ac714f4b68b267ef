"""Tier E: what /proc alone tells in the place of a probe that could not be loaded. Coarser, and its reports say so.

A reading is cumulative since boot and plain JSON; `report` gives the interval between two, with the keys of the probe's own
report as far as /proc knows them, and `source` naming the file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from agent.linux import procfs
from agent.linux.procfs import Counts
from agent.model import Data, Json


def _waits() -> Data | None:
    found = procfs.read_schedstat()
    if found is None:
        return None
    cpus = found.values()
    return {"waited_ns": sum(cpu.waiting_ns for cpu in cpus), "slices": sum(cpu.slices for cpu in cpus)}


def _waits_report(before: Data, after: Data) -> Data:
    slices = _grown(before, after, "slices")
    waited_us = _grown(before, after, "waited_ns") / 1000
    mean = round(waited_us / slices, 1) if slices else 0.0
    return {"source": "/proc/schedstat", "run_queue_us": {"count": slices, "mean": mean}}


def _counted(found: Mapping[str, Counts] | None) -> Data | None:
    if found is None:
        return None
    return {name: {"name": row.description, "count": sum(row.by_cpu.values())} for name, row in found.items()}


def _count_report(key: str, label: str, source: str) -> Callable[[Data, Data], Data]:
    def report(before: Data, after: Data) -> Data:
        rows: list[Json] = []
        for name, row in after.items():
            old = before.get(name)
            if not isinstance(row, dict):
                continue
            grown = _grown(old if isinstance(old, dict) else {}, row, "count")
            if grown:
                rows.append({label: name, "name": row.get("name"), "count": grown})
        return {"source": source, key: rows}

    return report


def _grown(before: Data, after: Data, key: str) -> int:
    new, old = after.get(key), before.get(key)
    return (new if isinstance(new, int) else 0) - (old if isinstance(old, int) else 0)


READERS: Final[Mapping[str, Callable[[], Data | None]]] = {
    "run_queue": _waits,
    "softirq": lambda: _counted(procfs.read_softirqs()),
    "irq": lambda: _counted(procfs.read_interrupts()),
}
REPORTS: Final[Mapping[str, Callable[[Data, Data], Data]]] = {
    "run_queue": _waits_report,
    "softirq": _count_report("softirq", "vector", "/proc/softirqs"),
    "irq": _count_report("irq", "line", "/proc/interrupts"),
}


_FILES: Final[Mapping[str, tuple[str, str]]] = {
    "run_queue": ("/proc/schedstat", "CONFIG_SCHEDSTATS"),
    "softirq": ("/proc/softirqs", "is /proc mounted?"),
    "irq": ("/proc/interrupts", "is /proc mounted?"),
}


def serving(probe: str) -> tuple[str, str]:
    """Give the file that serves in place of `probe`, and, if it should but is not there, the words that say so."""
    if probe not in _FILES:
        return "", ""
    file, why = _FILES[probe]
    return (file, "") if read(probe) is not None else ("", f"{file} would serve instead and is missing ({why})")


def read(probe: str) -> Data | None:
    """Give the cumulative reading in place of `probe`; None where /proc has nothing for it."""
    reader = READERS.get(probe)
    return None if reader is None else reader()


def report(probe: str, before: Data | None, after: Data | None) -> Data | None:
    """Give the interval between two readings of `read`; None unless both are there."""
    if before is None or after is None or probe not in REPORTS:
        return None
    return REPORTS[probe](before, after)
