"""agentd on an idle gateway: memory, CPU, wake-ups, maps, and what it writes to flash with, without and with a dead broker.

The machine that runs a benchmark is seldom idle: its late timers and long waits are events, which agentd rightly records.
So the rows of CPU, wake-ups and flash are taken from the seconds without an event; the notes tell of all seconds together.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import cast

from tests.bench import gateway, readings, timeline
from tests.bench.gateway import Gateway
from tests.bench.plan import Plan, say
from tests.bench.readings import KIB_PER_MIB
from tests.bench.table import Row, unmeasured
from tests.bench.timeline import Slice
from tests.brokers import free_port

TITLE = "agentd on an idle gateway"
NEEDS = ("kernel", "root", "broker")
ACTIVITY = ("agentd.cpu", "agentd.cpu_peak", "agentd.wakeups")
FLASH = {"connected": "MQTT over TLS", "no_broker": "no [mqtt] section", "dead_broker": "broker configured and away"}
ROWS = ("agentd.uss", "agentd.maps", *ACTIVITY, *(f"flash.{name}" for name in FLASH))
DAY_S, MB = 86_400, 1_000_000
STARTED_S = 20  # what agentd writes once, at its start, is no daily rate
ENOUGH = 10  # idle seconds: one period of the metrics


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(60 + 240, 20 + 90) + STARTED_S + 10


def measure(plan: Plan) -> Iterator[Row]:
    """One agentd with a broker over TLS is weighed; then two without are put beside it, and all three are watched."""
    with ExitStack() as stack:
        _port, mqtt = stack.enter_context(gateway.secure_broker())
        box, pid = _start(stack, mqtt)
        gateway.wait_for_link(box)
        time.sleep(plan.of(60, 20))
        yield from _memory(box, pid)
        away = f'[mqtt]\nhost = "127.0.0.1"\nport = {free_port()}\n'
        boxes = dict(zip(FLASH, ((box, pid), _start(stack, ""), _start(stack, away)), strict=True))
        say("      CPU, wake-ups, flash")
        time.sleep(STARTED_S)
        found = timeline.watch({name: pid for name, (_box, pid) in boxes.items()}, plan.of(240, 90))
        events = {name: _events(boxes[name][0], slices) for name, slices in found.items()}
        yield from _activity(found["connected"], events["connected"])
        if kind_of(Path("/proc/mounts").read_text(), box.state) in {"tmpfs", "ramfs"}:
            yield from unmeasured([f"flash.{name}" for name in FLASH], f"{box.state} is not on a disk")
        else:
            yield from (_written(name, slices, events[name]) for name, slices in found.items())


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


def _events(box: Gateway, slices: Sequence[Slice]) -> list[float]:
    """Give the times of the records since shortly before `slices`."""
    earliest = slices[0].begun - timeline.SETTLING_S
    wall = time.time() - (time.monotonic() - earliest)
    answer = box.ask("events", since_wall=wall, limit=gateway.MOST_EVENTS)
    rows = cast("list[dict[str, int]]", answer["events"])
    return [row["t_mono_ns"] / 1e9 for row in rows]


def _activity(slices: Sequence[Slice], events: Sequence[float]) -> Iterator[Row]:
    quiet, busy = timeline.idle(slices, events), timeline.whole(slices)
    rest = timeline.whole(quiet)
    if busy is None or rest is None or len(quiet) < ENOUGH:
        yield from unmeasured(ACTIVITY, _never_idle(quiet, slices, events))
        return
    note = f"{len(quiet)} idle seconds; {busy.cpu_pct:.2f} % in all {len(slices)}, with {len(events)} records in them"
    yield Row("agentd.cpu", "CPU of one core, mean", "%", rest.cpu_pct, 1, 0.3, note=note)
    peak, worst = (max(part.cpu_pct for part in parts) for parts in (quiet, slices))
    yield Row("agentd.cpu_peak", "CPU of one core, worst second", "%", peak, 3, note=f"{worst:.1f} % in all seconds")
    rate = rest.wakeups / rest.seconds
    note = f"{busy.wakeups / busy.seconds:.1f} /s in all seconds; preempted by others {busy.preempted / busy.seconds:.1f} /s"
    yield Row("agentd.wakeups", "wake-ups, all threads", "/s", rate, 10, 2, note=note)


def _never_idle(quiet: Sequence[Slice], slices: Sequence[Slice], events: Sequence[float]) -> str:
    return f"only {len(quiet)} of {len(slices)} seconds were idle: {len(events)} records came of this machine's own load"


def _written(name: str, slices: Sequence[Slice], events: Sequence[float]) -> Row:
    quiet, busy = timeline.idle(slices, events), timeline.whole(slices)
    rest = timeline.whole(quiet)
    if busy is None or rest is None or len(quiet) < ENOUGH:
        return Row(f"flash.{name}", FLASH[name], "MB/day", None, note=_never_idle(quiet, slices, events))
    note = (
        f"{len(quiet)} idle seconds; {per_day(busy):,.0f} MB/day in all {len(slices)}, with {len(events)} records in them: "
        f"{busy.written / 1024:,.0f} KiB"
    )
    return Row(f"flash.{name}", f"flash, {FLASH[name]}", "MB/day", per_day(rest), 100, 20, note=note)


def per_day(part: Slice) -> float:
    """Give megabytes per day at the rate of `part`."""
    return part.written * DAY_S / part.seconds / MB


def kind_of(mounts: str, path: Path) -> str:
    """Give the type of the file system that `path` lies on, by the text of /proc/mounts."""
    points = [(Path(fields[1]), fields[2]) for line in mounts.splitlines() if len(fields := line.split()) > 2]
    around = [(len(point.parts), kind) for point, kind in points if path.is_relative_to(point)]
    return max(around, default=(0, ""))[1]
