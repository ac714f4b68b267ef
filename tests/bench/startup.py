"""`agentctl probes load`: how long a boot waits for it, and how much memory the loader takes meanwhile."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from statistics import median

from tests.bench import gateway
from tests.bench.plan import Plan
from tests.bench.readings import KIB_PER_MIB
from tests.bench.table import Row

TITLE = "start-up: agentctl probes load"
NEEDS = ("kernel", "root")
ROWS = ("load.wall", "load.rss")

# A child of a large process begins with its parent's peak (fs/exec.c, setmax_mm_hiwater_rss), so a small one stands between.
TIMED = """
import json, resource, subprocess, sys, time
begun = time.monotonic()
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
wall = time.monotonic() - begun
print(json.dumps([code, wall, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss]))
"""


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(10, 6)


def measure(plan: Plan) -> Iterator[Row]:
    """Load and unload a few times."""
    walls, sizes = [], []
    with gateway.installed() as box:
        for _ in range(plan.of(7, 3)):
            command = [sys.executable, "-I", "-S", "-c", TIMED, *box.agentctl("probes", "load")]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            code, wall, peak_kib = json.loads(done.stdout)
            assert code == 0, done.stderr
            walls.append(1000 * wall)
            sizes.append(peak_kib / KIB_PER_MIB)
            box.run("probes", "unload")
    spread = f"{len(walls)} loads: {min(walls):.0f} to {max(walls):.0f} ms"
    yield Row("load.wall", "five probes loaded, attached, pinned", "ms", median(walls), note=spread)
    yield Row("load.rss", "peak RSS of the loader process", "MiB", max(sizes))
