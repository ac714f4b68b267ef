"""agentd on an idle gateway: memory, CPU, wake-ups, maps, and what it writes to flash with, without and with a dead broker."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from typing import cast

from tests.bench import gateway, readings
from tests.bench.gateway import Gateway
from tests.bench.plan import Plan, say
from tests.bench.readings import KIB_PER_MIB, Usage
from tests.bench.table import Row
from tests.brokers import free_port

TITLE = "agentd on an idle gateway"
NEEDS = ("kernel", "root", "broker")
FLASH = {"connected": "MQTT over TLS", "no_broker": "no [mqtt] section", "dead_broker": "broker configured and away"}
ROWS = ("agentd.uss", "agentd.maps", "agentd.cpu", "agentd.cpu_peak", "agentd.wakeups", *(f"flash.{name}" for name in FLASH))
DAY_S, MB = 86_400, 1_000_000
STARTED_S = 20  # what agentd writes once, at its start, is no daily rate


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(60 + 60 + 200, 20 + 30 + 80) + 10


def measure(plan: Plan) -> Iterator[Row]:
    """One agentd with a broker over TLS is weighed and timed; then two without are put beside it for the flash writes."""
    with ExitStack() as stack:
        _port, mqtt = stack.enter_context(gateway.secure_broker())
        box, pid = _start(stack, mqtt)
        gateway.wait_for_link(box)
        time.sleep(plan.of(60, 20))
        yield from _memory(box, pid)
        say("      CPU and wake-ups")
        yield from _activity(pid, plan.of(60, 30))
        yield from _flash(stack, plan, (box, pid))


def _start(stack: ExitStack, more: str) -> tuple[Gateway, int]:
    box = stack.enter_context(gateway.installed(more))
    box.run("probes", "load")
    pid = stack.enter_context(gateway.agentd(box))
    gateway.all_probes_run(box)
    return box, pid


def _memory(box: Gateway, pid: int) -> Iterator[Row]:
    size = readings.memory(pid)
    own = cast("dict[str, int]", box.ask("status")["agent"])
    note = (
        f"as if no other Python ran; {size.uss_kib / KIB_PER_MIB:.1f} MiB beside this benchmark, "
        f"agentd says {own['uss_kib'] / KIB_PER_MIB:.1f}; RSS {readings.rss_kib(pid) / KIB_PER_MIB:.1f}"
    )
    yield Row("agentd.uss", "USS, five probes, MQTT over TLS connected", "MiB", size.alone_kib / KIB_PER_MIB, 36, 28, note=note)
    yield Row("agentd.maps", "kernel memory of all maps", "MiB", own["map_kib"] / KIB_PER_MIB, 8, 4, note="memlock of fdinfo")


def _activity(pid: int, length: int) -> Iterator[Row]:
    taken = [(time.monotonic(), readings.usage(pid))]
    for _ in range(length):
        time.sleep(1)
        taken.append((time.monotonic(), readings.usage(pid)))
    shares = [share(*before, *after) for before, after in pairwise(taken)]
    whole = taken[-1][0] - taken[0][0]
    rate = (taken[-1][1].wakeups - taken[0][1].wakeups) / whole
    yield Row("agentd.cpu", "CPU of one core, mean", "%", share(*taken[0], *taken[-1]), 1, 0.3, note=f"over {whole:.0f} s")
    yield Row("agentd.cpu_peak", "CPU of one core, worst second", "%", max(shares), 3, note="by schedstat, in ns")
    yield Row("agentd.wakeups", "wake-ups, all threads", "/s", rate, 10, 2)


def share(begun: float, first: Usage, ended: float, last: Usage) -> float:
    """Give per cent of one core between two readings at two times in seconds."""
    return 100 * (last.cpu_ns - first.cpu_ns) / 1e9 / (ended - begun)


def _flash(stack: ExitStack, plan: Plan, connected: tuple[Gateway, int]) -> Iterator[Row]:
    if in_memory(Path("/proc/mounts").read_text(), connected[0].state):
        for name, what in FLASH.items():
            yield Row(f"flash.{name}", what, "MB/day", None, note=f"{connected[0].state} is not on a disk")
        return
    away = f'[mqtt]\nhost = "127.0.0.1"\nport = {free_port()}\n'
    boxes = dict(zip(FLASH, (connected, _start(stack, ""), _start(stack, away)), strict=True))
    say("      flash writes")
    time.sleep(STARTED_S)
    begun, wall = time.monotonic(), time.time()
    before = {name: readings.usage(pid).written for name, (_box, pid) in boxes.items()}
    time.sleep(plan.of(180, 60))
    passed = time.monotonic() - begun
    for name, (box, pid) in boxes.items():
        grown = readings.usage(pid).written - before[name]
        note = f"{grown / 1024:,.0f} KiB in {passed:.0f} s, {gateway.events_since(box, wall)} events in them"
        yield Row(f"flash.{name}", f"flash, {FLASH[name]}", "MB/day", grown * DAY_S / passed / MB, 100, 20, note=note)


def in_memory(mounts: str, path: Path) -> bool:
    """Whether `path` lies on a file system without a disk, by the text of /proc/mounts."""
    points = [(Path(fields[1]), fields[2]) for line in mounts.splitlines() if len(fields := line.split()) > 2]
    around = [(len(point.parts), kind) for point, kind in points if path.is_relative_to(point)]
    return max(around, default=(0, ""))[1] in {"tmpfs", "ramfs"}
