"""`agentctl status`: wall time of the command, with agentd alive and dead."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from statistics import median

from tests.bench import gateway
from tests.bench.gateway import Gateway
from tests.bench.plan import Plan
from tests.bench.table import Row

TITLE = "agentctl status"
NEEDS = ()
ROWS = ("agentctl.alive", "agentctl.dead")
MUST_MS = 150
RUNS = 20
NOT_RUNNING = 3


def seconds(_plan: Plan) -> int:
    """Give about how long it takes."""
    return 12


def measure(_plan: Plan) -> Iterator[Row]:
    """Run it 20 times each; the first, which warms the page cache, is left out."""
    with gateway.installed() as box:
        with gateway.agentd(box):
            yield _row(box, "alive", {0, 1})
        yield _row(box, "dead", {NOT_RUNNING})


def _row(box: Gateway, state: str, codes: set[int]) -> Row:
    walls = []
    for _ in range(RUNS + 1):
        begun = time.monotonic()
        code = subprocess.run(box.agentctl("status"), capture_output=True, check=False).returncode
        walls.append(1000 * (time.monotonic() - begun))
        assert code in codes, f"agentctl status ended with {code}"
    walls = walls[1:]
    spread = f"median of {RUNS}, {min(walls):.0f} to {max(walls):.0f} ms"
    return Row(f"agentctl.{state}", f"agentctl status, agentd {state}", "ms", median(walls), MUST_MS, note=spread)
