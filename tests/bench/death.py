"""A watched process dies: how long until the central service's broker has handed that to a subscriber."""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack

from tests.bench import gateway
from tests.bench.plan import Plan
from tests.bench.table import Row, quantile
from tests.brokers import Heard, Subscriber, subscriber, wait_for

TITLE = "process death -> event on the broker"
NEEDS = ("kernel", "root", "broker")
ROWS = ("death.p50", "death.p99")
MUST_MS, AIM_MS = 100, 20
PATIENCE_S = 10.0
CONFIG = '[probes.process_exit]\ncomm = ["sleep"]\n'


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(40, 12)


def measure(plan: Plan) -> Iterator[Row]:
    """Kill one `sleep` after the other at random moments, over TLS, with a subscriber on the same broker."""
    with ExitStack() as stack:
        port, mqtt = stack.enter_context(gateway.secure_broker())
        box = stack.enter_context(gateway.installed(CONFIG + mqtt))
        box.run("probes", "load")
        stack.enter_context(gateway.agentd(box))
        gateway.all_probes_run(box)
        gateway.wait_for_link(box)
        hears = stack.enter_context(subscriber(port))
        took = [_kill_one(hears) for _ in range(plan.of(100, 20))]
    note = f"{len(took)} kills, fastest {min(took):.1f}, slowest {max(took):.1f} ms"
    yield Row("death.p50", "kill to arrival, median", "ms", quantile(took, 0.5), note=note)
    yield Row(
        "death.p99", "kill to arrival, 99 %", "ms", quantile(took, 0.99), MUST_MS, AIM_MS, note="over TLS, by ring buffer"
    )


def _kill_one(hears: Subscriber) -> float:
    with subprocess.Popen(["sleep", "600"]) as child:
        time.sleep(0.05 + random.random() * 0.15)
        begun = time.monotonic()
        child.kill()
        wait_for(lambda: _told(hears, child.pid), f"death of {child.pid} on the broker", PATIENCE_S)
    return 1000 * (_told(hears, child.pid)[0].t_mono - begun)


def _told(hears: Subscriber, pid: int) -> list[Heard]:
    events = (item for item in hears.of("event") if item.payload.get("kind") == "proc.exit")
    return [item for item in events if item.payload["data"]["pid"] == pid]
