"""softirq in the running kernel, with /proc/softirqs as the oracle."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import cast

import pytest

from agent.model import Data
from agent.probes.softirq import VECTORS
from tests.kernel import live
from tests.kernel.live import agrees, delayed

pytestmark = pytest.mark.kernel

NET_RX = VECTORS.index("NET_RX")
WINDOW_S = 1.0
OFF_S = 3.0
Key = tuple[str, int]


def oracle() -> dict[Key, int]:
    """Give the kernel's own counts by vector and CPU."""
    head, *lines = Path("/proc/softirqs").read_text().splitlines()
    cpus = [int(word.removeprefix("CPU")) for word in head.split()]
    rows = [line.split() for line in lines]
    return {(row[0].rstrip(":"), cpu): int(count) for row in rows for cpu, count in zip(cpus, row[1:], strict=True)}


def loopback(count: int) -> None:
    """Send datagrams to nobody: each raises NET_RX on its CPU."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(count):
            sender.sendto(b"x", ("127.0.0.1", 9))


def test_counts_are_the_kernels() -> None:
    """By vector and CPU our count is what /proc/softirqs gained around it."""
    with live.live("softirq") as probe:
        outer = oracle()
        probe.steer()
        inner = oracle()
        deadline = time.monotonic() + WINDOW_S
        while time.monotonic() < deadline:
            loopback(200)
            time.sleep(0.01)
        most_inner = oracle()
        rows = probe.rows("softirq")
        most_outer = oracle()
    ours = {(str(row["vector"]), cast("int", row["cpu"])): cast("int", row["count"]) for row in rows}
    assert sum(count for (vector, _), count in ours.items() if vector == "NET_RX") > 1000
    for key, count in ours.items():
        assert agrees(count, most_inner[key] - inner[key], most_outer[key] - outer[key]), key


def test_each_raise_has_a_latency_and_each_run_a_time() -> None:
    """Histograms hold one value for each run; a vector is raised at least as often as it runs."""
    with live.live("softirq") as probe:
        probe.steer()
        loopback(2000)
        time.sleep(0.1)
        rows = [row for row in probe.rows("softirq") if row["vector"] == "NET_RX"]
    for row in rows:
        count, raised = cast("int", row["count"]), cast("int", row["raised"])
        latency, run = cast("Data", row["latency_us"]), cast("Data", row["run_us"])
        assert raised >= count - 1
        assert count - 1 <= cast("int", latency["count"]) <= count
        assert count - 1 <= cast("int", run["count"]) <= count
        assert 0 < cast("float", run["p50"]) <= cast("float", run["max"])


def test_an_overlong_softirq_is_told_with_its_stack(delay_object: Path) -> None:
    """A NET_RX that holds its CPU for 5 ms is more than a budget of 2: named, with who was interrupted, and the stack."""
    with live.live("softirq") as probe, delayed(delay_object, "softirq_entry", ms=5, times=3, only=NET_RX):
        probe.steer(run_us=2000)
        found = probe.wait_for(lambda item: item.kind == "softirq.overlong", lambda: loopback(1))
        assert found.subject == found.data["vector"] == "NET_RX"
        assert cast("float", found.data["run_us"]) >= 5000
        assert found.data["budget_us"] == 2000
        assert any("softirq" in frame for frame in cast("list[str]", found.data["stack"]))


def test_a_stall_behind_another_softirq_is_told(delay_object: Path) -> None:
    """While NET_RX holds the CPU for 24 ms the tick raises TIMER or SCHED again: they begin late, from their first raise."""
    with live.live("softirq") as probe, delayed(delay_object, "softirq_entry", ms=24, times=40, only=NET_RX):
        probe.steer(latency_us=5000, run_us=10_000_000)
        found = probe.wait_for(lambda item: item.kind == "softirq.stall", lambda: loopback(1))
        assert 5000 < cast("float", found.data["latency_us"]) < 10**6
        assert found.data["stack"]


@pytest.mark.skipif("GATEWARDEN_GUEST" not in os.environ, reason="takes a CPU off: only in a guest (make test-vm)")
def test_a_cpu_that_was_off_has_no_stall(last_cpu: int) -> None:
    """What was pending when it went off runs elsewhere: back on, nothing there has waited all the time in between."""
    switch = Path(f"/sys/devices/system/cpu/cpu{last_cpu}/online")
    with live.live("softirq") as probe:
        probe.steer()
        time.sleep(WINDOW_S)
        switch.write_text("0")
        try:
            time.sleep(OFF_S)
        finally:
            switch.write_text("1")
        time.sleep(WINDOW_S)
        rows = [row for row in probe.rows("softirq") if row["cpu"] == last_cpu]
        assert probe.stats()["cpuhp_enter"]["runs"] > 0
    assert rows
    assert max(cast("float", cast("Data", row["latency_us"])["max"]) for row in rows) < OFF_S * 1e6
