"""A workload is killed: how long until its replacement runs, under the keeper and under others; the keeper's memory.

The replacement notes the time itself as the first thing that it does (mark.c): exec and its own start are in every row.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from tests.bench import readings
from tests.bench.plan import Plan
from tests.bench.readings import KIB_PER_MIB
from tests.bench.supervisors import PATIENCE_S, PEERS
from tests.bench.table import Row, quantile, unmeasured
from tests.brokers import wait_for
from tests.keepers import Keeper, begin, put_down, python, workload

TITLE = "death of a workload -> its replacement"
NEEDS = ("root",)
ROWS = ("replace.p50", "replace.p99", "replace.told", *(f"replace.{name}" for name in PEERS), "keeper.wakeups", "keeper.uss")
MUST_MS, AIM_MS = 20, 3
MUST_MIB, AIM_MIB = 14, 10
BEATS = python("from agent import watch; import time\nwith watch.Watch() as me:\n while 1: me.beat(); time.sleep(1)")


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(75, 30)


def measure(plan: Plan) -> Iterator[Row]:
    """Measure the keeper, then each peer that is installed."""
    with tempfile.TemporaryDirectory(dir="/var/tmp", prefix="gatewarden-replace-") as name:
        folder = Path(name)
        compiler = "cc" if shutil.which("cc") else "clang"
        subprocess.run([compiler, "-O1", "-o", folder / "mark", Path(__file__).with_name("mark.c")], check=True)
        yield from _keeper(folder, plan)
        for peer in PEERS:
            yield from _peer(peer, folder, plan)


def _peer(name: str, folder: Path, plan: Plan) -> Iterator[Row]:
    peer, log = PEERS[name], folder / f"{name}.log"
    if not shutil.which(peer.program):
        yield from unmeasured([f"replace.{name}"], f"{peer.program} is not installed (deploy/lab/install bench)")
        return
    log.touch()
    with peer.keeping(folder, log):
        took = _kills(log, plan.of(60, 15) if name == "systemd" else plan.of(6, 3))
    note = f"{len(took)} kills, slowest {max(took):.1f} ms"
    yield Row(f"replace.{name}", f"{name}: kill to replacement, median", "ms", quantile(took, 0.5), note=note)


def _keeper(folder: Path, plan: Plan) -> Iterator[Row]:
    log, config = folder / "keeper.log", folder / "agent.toml"
    log.touch()
    for part in ("state", "run", "bpf"):
        (folder / part).mkdir()
    paths = f'[paths]\nstate_dir = "{folder}/state"\nruntime_dir = "{folder}/run"\nbpffs_dir = "{folder}/bpf"\n'
    mark = workload("mark", [str(folder / "mark"), str(log)], restart={"burst": 1000, "window_s": 1.0})
    config.write_text(paths + mark + workload("beats", BEATS, notify="watchdog"))
    found = begin(config)
    os.setpriority(os.PRIO_PROCESS, found.process.pid, -10)  # as its unit does
    try:
        yield from _figures(found, log, plan)
    finally:
        put_down(found)


def _figures(found: Keeper, log: Path, plan: Plan) -> Iterator[Row]:
    with found.client() as client:
        took = _kills(log, plan.of(200, 40))
        wait_for(lambda: len(client.of(type="exit", name="mark")) == len(took), "all exits are told")
        told = [float(one["replaced_ms"]) for one in client.of(type="exit", name="mark")]
        yield Row("replace.p50", "keeper: kill to replacement, median", "ms", quantile(took, 0.5), note=f"{len(took)} kills")
        note = f"slowest {max(took):.1f} ms"
        yield Row("replace.p99", "keeper: kill to replacement, 99 %", "ms", quantile(took, 0.99), MUST_MS, AIM_MS, note=note)
        yield Row("replace.told", "as the keeper tells it, 99 %", "ms", quantile(told, 0.99), MUST_MS, AIM_MS, "pidfd to exec")
        before, begun = readings.usage(found.process.pid), time.monotonic()
        time.sleep(plan.of(10, 5))
        rate = (readings.usage(found.process.pid).wakeups - before.wakeups) / (time.monotonic() - begun)
        yield Row("keeper.wakeups", "keeper: wake-ups, one beat a second", "/s", rate, 10, 4)
        size = readings.memory(found.process.pid)
        note = f"{size.uss_kib / KIB_PER_MIB:.1f} MiB while other Python processes run"
        yield Row("keeper.uss", "keeper's USS", "MiB", size.alone_kib / KIB_PER_MIB, MUST_MIB, AIM_MIB, note=note)


def _kills(log: Path, count: int) -> list[float]:
    """Kill the process of `log` again and again at random moments; milliseconds to the next one's first line."""
    took = []
    for number in range(count):
        wait_for(lambda: len(_starts(log)) > number, f"start {number + 1} in {log}", PATIENCE_S)  # noqa: B023 - called at once
        time.sleep(0.05 + random.random() * 0.1)
        pid, before = _pid_of(log), len(_starts(log))
        begun = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: len(_starts(log)) > before, f"the replacement of {pid}", PATIENCE_S)  # noqa: B023
        took.append((_starts(log)[before] - begun) / 1e6)
    return took


def _starts(log: Path) -> list[int]:
    return [int(line.split()[1]) for line in log.read_text().splitlines()]


def _pid_of(log: Path) -> int:
    """Find the process that was started with `log`: a container numbers its own."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().split(b"\0")
                if words[0].endswith(b"/mark") and bytes(log) in words:
                    return int(folder.name)
    raise AssertionError(f"nobody runs with {log}")
