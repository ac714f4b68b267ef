"""The open sets: a folder of ours is the list of what may be named in the configuration.

A name is looked up in the folder before anything of that name is imported, and only what is named is imported.
"""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

SETS = {
    "probes": ("timers", "run_queue", "softirq", "irq", "process_exit"),
    "detectors": (
        *("timer_late", "sched_latency", "irq_storm", "softirq_stall", "process_death", "probe_budget"),
        *("deadline", "crash_loop", "service_loss", "health_check", "feed_missed", "device_lost"),
    ),
}
"""Each open set and what is on by default."""


@cache
def available(group: str) -> tuple[str, ...]:
    """Give the names in the folder `agent/<group>`, sorted; helpers (`_name.py`) and links (`name_link.py`) left out."""
    folder = Path(__file__).parent.parent / group
    stems = (path.stem for path in folder.glob("*.py"))
    return tuple(sorted(stem for stem in stems if not stem.startswith("_") and not stem.endswith("_link")))


def options_class(group: str, name: str) -> type:
    """Give the `Options` dataclass of one member; `name` must be available."""
    options: type = importlib.import_module(f"agent.{group}.{name}").Options
    return options
