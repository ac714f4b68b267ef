"""timer_race in the running kernel: a race made by bpf_timer on two CPUs, a storm by timerfd, and a healthy minute."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import struct
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from agent import probes
from agent.linux.bpf import bpf_command
from agent.linux.libbpf import Loader
from agent.model import Data
from tests.kernel import live
from tests.kernel.live import Live, TimerFd

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a race takes two CPUs"),
]

MS = 1_000_000
TEST_RUN = 10  # BPF_PROG_TEST_RUN
INIT, START, CANCEL = 1, 0, 2
CALLBACK = "bpf_timer_cb"


class Racer:
    """A bpf_timer and the way to start it from a CPU of choice."""

    def __init__(self, folder: Path) -> None:
        """Compile and load it."""
        target = folder / "race.bpf.o"
        flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v2", f"-I/usr/include/{os.uname().machine}-linux-gnu"]
        subprocess.run(["clang", *flags, "-c", str(Path(__file__).parent / "race.bpf.c"), "-o", str(target)], check=True)
        self.loader = Loader()
        self._program = self.loader.load_detached(target).programs["arm"]

    def order(self, what: int, cpu: int, *, hold_ns: int = 0, in_ns: int = 0) -> None:
        """Start (or initialise and start, or cancel) the timer from `cpu`; its callback will hold its CPU for `hold_ns`."""
        os.sched_setaffinity(0, {cpu})
        context = ctypes.create_string_buffer(struct.pack("=IIQQ", 0, what, hold_ns, in_ns), 24)
        # test struct of union bpf_attr: prog_fd, retval, 2 sizes, 2 pointers, repeat, duration, ctx_size_in/out, ctx_in/out
        head = struct.pack("=IIIIQQIIIIQQ", self._program, 0, 0, 0, 0, 0, 0, 0, len(context), 0, ctypes.addressof(context), 0)
        bpf_command(TEST_RUN, ctypes.create_string_buffer(head, len(head) + 16), "test run")

    def race(self) -> None:
        """Start it from CPU 0, and from CPU 1 while its callback holds CPU 0 (where this task would have to wait for it)."""
        self.order(START, 0, hold_ns=3 * MS, in_ns=MS // 2)
        os.sched_setaffinity(0, {1})
        time.sleep(0.001)
        self.order(START, 1, hold_ns=3 * MS, in_ns=20 * MS)
        time.sleep(0.005)


@pytest.fixture
def racer(tmp_path: Path) -> Iterator[Racer]:
    """Give a racer, and the CPUs back."""
    allowed = os.sched_getaffinity(0)
    made = Racer(tmp_path)
    yield made
    os.sched_setaffinity(0, allowed)
    made.loader.close()


def rows(probe: Live, transition: str) -> list[Data]:
    """Give what was found of one transition."""
    return [row for row in probe.rows("found") if row["transition"] == transition]


@pytest.mark.parametrize("attach", ["tp_btf", "raw_tp"])
def test_a_start_from_another_cpu_is_found_with_both_sides(racer: Racer, attach: str) -> None:
    """F2: the callback holds CPU 0 for 3 ms while CPU 1 starts its timer; the kernel's own field confirms it."""
    with live.live("timer_race", attach) as probe:
        probe.steer()
        racer.order(INIT, 0, hold_ns=3 * MS, in_ns=MS)

        found = probe.wait_for(lambda item: item.data["transition"] == "start_running", racer.race)
        racer.order(CANCEL, 0)
        assert (found.kind, found.subject, found.data["confirmed"]) == ("timer.race", CALLBACK, "kernel")
        actor, other = cast("Data", found.data["actor"]), cast("Data", found.data["other"])
        assert actor["cpu"] != other["cpu"]
        assert (actor["context"], other["context"]) == ("task", "softirq") or other["context"] == "hardirq"
        assert actor["comm"] == Path("/proc/self/comm").read_text().strip()[:15]
        assert 0 < cast("float", found.data["distance_us"]) < 50_000
        assert any("bpf_timer_start" in str(line) for line in cast("list[str]", actor["stack"]))
        assert other["stack"]


def test_a_start_from_the_callbacks_own_cpu_is_none(racer: Racer) -> None:
    """The same, each start from one CPU: the start waits until the callback is over, and nothing is found."""
    with live.live("timer_race") as probe:
        probe.steer()
        racer.order(INIT, 0, hold_ns=MS // 4, in_ns=MS)
        for _ in range(50):
            racer.order(START, 0, hold_ns=MS // 4, in_ns=MS // 2)
            time.sleep(0.003)
        racer.order(CANCEL, 0)
        assert [row for row in rows(probe, "start_running") if row["callback"] == CALLBACK] == []


def test_a_storm_of_starts_in_the_past_is_found() -> None:
    """F9: a process sets a timerfd to a time long past, over and over."""
    with live.live("timer_race") as probe:
        probe.steer(past_per_window=50)
        timer = TimerFd()
        for _ in range(500):
            timer.set(1)
            timer.wait()
        timer.close()
        (storm, *_) = rows(probe, "storm")
        assert storm["callback"] == "timerfd_tmrproc"
        assert cast("Data", storm["actor"])["context"] == "task"
        assert "timerfd" in str(cast("Data", storm["actor"])["symbol"]) or cast("Data", storm["actor"])["stack"]


def test_frees_are_looked_at_for_as_long_as_told() -> None:
    """The window is off by default, ends by itself, and its budget holds on each CPU."""
    with live.live("timer_race") as probe:
        probe.steer()
        time.sleep(0.3)
        assert cast("Data", probe.report()["seen"])["frees"] == 0
        probe.steer(free_window_s=1, frees_per_window=10)
        for _ in range(30):  # opening frees; a quiet machine may do nothing of the kind for a second
            Path("/proc/self/status").read_text()
            time.sleep(0.05)
        looked = cast("int", cast("Data", probe.report()["seen"])["frees"])
        time.sleep(0.5)
        assert 0 < looked <= 10 * 12 * (os.cpu_count() or 1)
        assert cast("Data", probe.report()["seen"])["frees"] == looked


def test_counts_are_those_of_the_kernel() -> None:
    """What was looked at is counted by the hooks: a timerfd that fires 40 times is at least 40 starts and expiries."""
    with live.live("timer_race") as probe:
        probe.steer()
        timer = TimerFd()
        for _ in range(40):
            timer.set(time.monotonic_ns() + MS)
            timer.wait()
        timer.close()
        seen = cast("Data", probe.report()["seen"])
        assert cast("int", seen["starts"]) >= 40
        assert cast("int", seen["expiries"]) >= 35


def test_armed_timers_seldom_take_each_others_place() -> None:
    """Of 800 timers that are armed for long, 4,096 records in sets of two keep 783 on average; one for each hash kept 728."""
    armed_at, count = 104, 800  # struct object of bpf/timer_race.bpf.h
    with live.live("timer_race") as probe, contextlib.ExitStack() as stack:
        probe.steer()
        for timer in [TimerFd() for _ in range(count)]:
            stack.callback(timer.close)
            timer.set(time.monotonic_ns() + 100_000 * MS)
        table = probe.maps.maps["objects"]
        records = [table.lookup(struct.pack("=I", index)) or bytes(armed_at + 8) for index in range(4096)]
    armed = Counter(record[8:16] for record in records if struct.unpack_from("=Q", record, armed_at)[0])
    assert armed.most_common(1)[0][1] >= 760  # all of one function


def test_scan_names_the_race_and_exits_with_one(racer: Racer) -> None:
    """`race scan --json`: the shape of its findings, a fault of bpf_timer_cb on two CPUs, tier and counts; exit code 1."""
    command = [sys.executable, "-m", "agent.cli", "race", "scan", "--seconds", "4", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as scan:
        racer.order(INIT, 0, hold_ns=3 * MS, in_ns=MS)
        while scan.poll() is None:
            racer.race()
        assert scan.stdout is not None
        result: dict[str, Any] = json.loads(scan.stdout.read())
    racer.order(CANCEL, 0)
    assert scan.returncode == 1
    assert result["schema"] == "gatewarden.race.scan/1"
    (found,) = [
        row for row in result["findings"] if (row["class"], row["callback"], row["verdict"]) == ("F2", CALLBACK, "fault")
    ]
    assert found["cpus"][0] != found["cpus"][1]
    assert (found["confirmed"], found["count"] > 0) == ("kernel", True)
    assert found["stacks"]["actor"]
    assert set(result["seen"]) >= {"starts", "expiries", "cancels", "frees"}
    assert result["tier"] in {"A", "B"}
    assert isinstance(result["lost"], int)


def test_a_healthy_kernel_is_silent() -> None:
    """Pins that nothing is a fault while the machine does what it always does; `make bench` has the long row."""
    command = [sys.executable, "-m", "agent.cli", "race", "scan", "--seconds", "10", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    result = json.loads(done.stdout)
    accused = [row for row in result["findings"] if row["verdict"] == "fault"]
    assert accused == []
    assert done.returncode == 0
    assert result["seen"]["starts"] > 50


def test_functions_are_hooked_or_left_out_with_a_reason() -> None:
    """Pins tier A and its absence: each function is hooked by kprobe or fentry, or named with why not; all tracepoints run."""
    probe = probes.load("timer_race")
    loader = Loader()
    loaded = loader.load(probes.object_path("timer_race"), probe.HOOKS)
    stems = {hook.tracepoint for hook in probe.HOOKS if hook.functions}
    hooked = {name.rsplit("_", 1)[0] for name in loaded.programs if name.endswith(("_kprobe", "_fentry"))}
    assert hooked | (stems & set(loaded.left_out)) == stems
    assert not hooked & set(loaded.left_out)
    assert all(loaded.left_out[stem].startswith("function ") for stem in stems - hooked)
    assert {f"{hook.tracepoint}_btf" for hook in probe.HOOKS if hook.required} <= set(loaded.programs)
    loader.close()
