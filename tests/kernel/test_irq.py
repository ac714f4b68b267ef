"""irq in the running kernel, with /proc/interrupts as the oracle."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from agent.model import Data
from tests.kernel import live
from tests.kernel.live import agrees, delayed

pytestmark = pytest.mark.kernel

WINDOW_S = 0.5


def oracle() -> dict[int, int]:
    """Give the kernel's own counts by line, over all CPUs."""
    head, *lines = Path("/proc/interrupts").read_text().splitlines()
    cpus = len(head.split())
    rows = [line.split() for line in lines]
    return {int(row[0][:-1]): sum(map(int, row[1 : cpus + 1])) for row in rows if row[0][:-1].isdigit()}


@pytest.fixture
def disk_io(tmp_path: Path) -> Callable[[], None]:
    """Give a function that makes the disk interrupt; skips where none does."""
    file = os.open(tmp_path / "io", os.O_RDWR | os.O_CREAT)

    def io() -> None:
        for _ in range(10):
            os.pwrite(file, os.urandom(4096), 0)
            os.fsync(file)

    before = oracle()
    io()
    if sum(oracle().values()) - sum(before.values()) < 10:
        pytest.skip("fsync causes no interrupts here (a tmpfs, or a device without any)")
    return io


def test_counts_are_the_kernels(disk_io: Callable[[], None]) -> None:
    """By line our count is what /proc/interrupts gained around it."""
    with live.live("irq") as probe:
        outer = oracle()
        probe.steer()
        inner = oracle()
        deadline = time.monotonic() + WINDOW_S
        while time.monotonic() < deadline:
            disk_io()
        most_inner = oracle()
        rows = probe.rows("irq")
        most_outer = oracle()
    assert rows
    for row in rows:
        line, count = cast("int", row["line"]), cast("int", row["count"])
        assert agrees(count, most_inner[line] - inner[line], most_outer[line] - outer[line]), line
        assert row["name"]
        assert cast("float", cast("Data", row["run_us"])["p50"]) > 0


def busiest(io: Callable[[], None]) -> int:
    """Give the line that the disk uses."""
    before = oracle()
    io()
    return max((count - before.get(line, 0), line) for line, count in oracle().items())[1]


def test_a_slow_handler_is_told(delay_object: Path, disk_io: Callable[[], None]) -> None:
    """A handler that takes 3 ms is more than a budget of 1: line, name, time and the stack."""
    line = busiest(disk_io)
    with live.live("irq") as probe, delayed(delay_object, "irq_handler_entry", ms=3, times=3, only=line):
        probe.steer(run_us=1000)
        found = probe.wait_for(lambda item: item.kind == "irq.slow", disk_io)
        assert found.data["line"] == line
        assert found.subject == f"{line} {found.data['name']}"
        assert cast("float", found.data["run_us"]) >= 3000
        assert any("irq" in frame for frame in cast("list[str]", found.data["stack"]))


def test_a_storm_is_told_once_in_a_window(disk_io: Callable[[], None]) -> None:
    """More than 10 interrupts of a line within 100 ms: one event for each window, not one for each interrupt."""
    with live.live("irq") as probe:
        begin = time.monotonic()
        probe.steer(storm_per_window=10)
        storm = probe.wait_for(lambda item: item.kind == "irq.storm", disk_io)
        assert (storm.data["count"], storm.data["budget"], storm.data["window_ms"]) == (11, 10, 100)
        for _ in range(20):
            disk_io()
        line = storm.data["line"]
        again = [item for item in probe.sightings() if item.kind == "irq.storm" and item.data["line"] == line]
        assert len(again) <= (time.monotonic() - begin) / 0.1 + 1
        assert not [item for item in again if item.kind == "irq.spurious"]
