"""The outbox under kill -9: what a consumer misses, what it gets twice after its dedup."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.bench.gateway import BASE
from tests.bench.plan import Plan
from tests.bench.table import Row
from tests.telemetry.crash import Books, crash_loop

TITLE = "outbox: kill -9 at random points"
NEEDS = ()
ROWS = ("outbox.lost", "outbox.duplicated")
LOOPS = 2  # side by side: most of a round is waiting


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(170, 18)


def measure(plan: Plan) -> Iterator[Row]:
    """Kill two writers again and again, then do the books of both."""
    kills = plan.of(1000, 100) // LOOPS
    with tempfile.TemporaryDirectory(prefix="gatewarden-bench-", dir=BASE) as name, ThreadPoolExecutor(LOOPS) as pool:
        folders = [Path(name) / str(index) for index in range(LOOPS)]
        for folder in folders:
            folder.mkdir()
        books = list(pool.map(lambda pair: crash_loop(pair[1], kills, seed=pair[0]), enumerate(folders)))
    yield Row("outbox.lost", "events lost", "", sum(item.lost for item in books), 0, 0, note=_note(books))
    yield Row("outbox.duplicated", "events twice after dedup", "", sum(item.duplicated for item in books), 0, 0)


def _note(books: list[Books]) -> str:
    kills, committed, again = (sum(getattr(item, key) for item in books) for key in ("kills", "committed", "repeated"))
    return f"{kills:,} kills, {committed:,} events committed, {again:,} sent again and recognised"
