"""timer_race on a healthy kernel: what it accuses, and what it costs meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from agent.narrow import count, part
from tests.bench import gateway
from tests.bench.plan import Plan
from tests.bench.table import Row
from tests.kernel.live import live

TITLE = "timer races on a healthy kernel"
NEEDS = ("kernel", "root")
ROWS = ("race.healthy", "race.suspects", "race.share", "race.maps")
PROBE = "timer_race"
MUST_FAULTS = 0
COST_S = 20
MIB = 1 << 20


def seconds(plan: Plan) -> int:
    """Give about how long it takes: 20 minutes, or one."""
    return plan.of(1200, 60) + COST_S + 5


def measure(plan: Plan) -> Iterator[Row]:
    """Scan, frees included as long as their window lasts; then weigh the probe alone, frees left out."""
    length = plan.of(1200, 60)
    with gateway.installed() as box:
        command = box.agentctl("race", "scan", "--seconds", str(length), "--json")
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    found: dict[str, Any] = json.loads(done.stdout)
    verdicts = [str(row["verdict"]) for row in found["findings"]]
    seen = f"{length} s, tier {found['tier']}: {found['seen']['starts']:,} starts, {found['seen']['expiries']:,} expiries"
    yield Row("race.healthy", "faults found by race scan", "", verdicts.count("fault"), MUST_FAULTS, note=seen)
    names = ", ".join(f"{row['class']} {row['callback']}" for row in found["findings"] if row["verdict"] == "suspect")
    yield Row("race.suspects", "suspicions beside them", "", verdicts.count("suspect"), note=names or "none")
    yield from _cost()


def _cost() -> Iterator[Row]:
    with live(PROBE) as probe:
        probe.steer()
        begun = time.monotonic()
        time.sleep(COST_S)
        stats, elapsed = probe.stats().values(), time.monotonic() - begun
        starts = count(part(probe.snapshot(), "seen")["starts"])
        size = probe.held.map_bytes()
    runs = sum(row["runs"] for row in stats)
    spent = sum(row["runs"] * row["timed_ns"] / row["timed_runs"] for row in stats if row["timed_runs"])
    share = 100 * spent / (1e9 * elapsed * len(os.sched_getaffinity(0)))
    note = f"{starts / elapsed:,.0f} starts/s, {spent / max(1, runs):.0f} ns per event of all hooks"
    yield Row("race.share", "BPF share of all CPU time", "%", share, note=note)
    yield Row(
        "race.maps", "kernel memory of timer_race's maps, beside agentd.maps", "MiB", size / MIB, note="memlock of fdinfo"
    )
