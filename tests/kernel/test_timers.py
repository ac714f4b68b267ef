"""timers in the running kernel."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from agent import histogram
from agent.model import Data
from agent.probes import timers
from tests.kernel import live
from tests.kernel.live import Live, TimerFd, agrees, delayed

pytestmark = pytest.mark.kernel

MS = 1_000_000
TIMERFD = "timerfd_tmrproc"
NET_RX = 3


def line_of(probe: Live, function: str) -> Data:
    """Give the report's row of one callback."""
    return next(row for row in probe.rows("timers") if row["function"] == function)


def test_late_timers_of_a_slow_interrupt_are_named_with_their_stack(delay_object: Path) -> None:
    """Of ten timers due at one moment the first callback holds the CPU 12 ms: the others are late by that, and say where."""
    with live.live("timers") as probe, delayed(delay_object, "hrtimer_expire_entry", ms=12, times=20):
        probe.steer(hrtimer_late_us=8000)  # an emulated CPU is late by 4 ms of itself, and would use up the rate limit
        timers = [TimerFd() for _ in range(10)]
        due = time.monotonic_ns() + 30 * MS
        for timer in timers:
            timer.set(due)
        found = probe.wait_for(lambda item: item.kind == "timer.late" and item.subject == TIMERFD)
        for timer in timers:
            timer.close()
        # Where interrupts are threads, so are the callbacks of hrtimers that do not ask for more.
        assert found.data["kind"] == ("hrtimer_soft" if "PREEMPT_RT" in os.uname().version else "hrtimer")
        assert 8000 < cast("float", found.data["late_us"]) < 10**6
        assert found.data["budget_us"] == 8000
        stack = cast("list[str]", found.data["stack"])
        assert any("hrtimer" in frame for frame in stack), stack


@contextlib.contextmanager
def wheel_timers() -> Iterator[None]:
    """Keep arming wheel timers: a receive with a time limit sleeps by schedule_timeout()."""
    stop = threading.Event()

    def wait() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
            receiver.bind(("127.0.0.1", 0))
            receiver.settimeout(None)
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, (0).to_bytes(8, "little") + (8000).to_bytes(8, "little"))
            while not stop.is_set():
                with contextlib.suppress(BlockingIOError):
                    receiver.recv(1)

    threads = [threading.Thread(target=wait, name=f"wheel-{index}") for index in range(4)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_wheel_timers_are_late_behind_a_busy_softirq(delay_object: Path) -> None:
    """A NET_RX softirq of 24 ms holds up the TIMER softirq on its CPU: timer.late against the bucket, with a stack."""
    with (
        live.live("timers") as probe,
        wheel_timers(),
        delayed(delay_object, "softirq_entry", ms=24, times=40, only=NET_RX),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        probe.steer(wheel_late_jiffies=1)
        time.sleep(0.5)  # the length of a jiffy is being measured

        def stir() -> None:
            sender.sendto(b"x", ("127.0.0.1", 9))
            time.sleep(0.005)

        found = probe.wait_for(lambda item: item.kind == "timer.late" and item.data["kind"] == "timer", stir)
        assert not found.subject.startswith("0x")
        assert found.data["stack"]
        assert cast("float", found.data["late_us"]) > cast("float", found.data["budget_us"]) > 900


def test_a_callback_that_holds_its_cpu_is_overlong(delay_object: Path) -> None:
    """From the callback's entry to its exit: more than the budget is an event of its own, and in the histogram."""
    with live.live("timers") as probe, delayed(delay_object, "hrtimer_expire_entry", ms=2, times=20):
        probe.steer(run_us=1000)
        found = probe.wait_for(lambda item: item.kind == "timer.overlong")
        assert cast("float", found.data["run_us"]) >= 2000
        row = line_of(probe, found.subject)
        assert cast("float", cast("Data", row["run_us"])["max"]) >= 2000


def test_the_period_of_a_timer_is_held_against_its_plan() -> None:
    """A timerfd of 10 ms: each expiry is counted, and its deviation is never more than its greatest lateness."""
    with live.live("timers") as probe:
        probe.steer()
        timer = TimerFd()
        timer.set(time.monotonic_ns() + 10 * MS, 10 * MS)
        for _ in range(40):
            timer.wait()
        timer.close()
        row = line_of(probe, TIMERFD)
        assert agrees(cast("int", row["count"]), 40, 40)
        deviation, late, idle = (cast("Data", row[name]) for name in ("deviation_us", "late_us", "idle_late_us"))
        assert 0 < cast("float", deviation["p99"]) <= cast("float", deviation["max"])
        assert cast("float", deviation["max"]) <= max(cast("float", late["max"]), cast("float", idle["max"]))
        assert row["cpus"]


def test_arming_in_the_past_is_counted_and_a_storm_is_told() -> None:
    """A process re-arms an expired timerfd in a loop; each start in the past counts, and many within 100 ms are a storm."""
    with live.live("timers") as probe:
        probe.steer(past_per_window=50)
        timer = TimerFd()
        for _ in range(400):
            timer.set(1)
            timer.wait()
        timer.close()
        row = line_of(probe, TIMERFD)
        assert cast("int", row["past_starts"]) >= 380
        storm = next(item for item in probe.sightings() if item.kind == "timer.storm" and item.subject == TIMERFD)
        assert storm.data["starts"] == storm.data["budget"] == 50


SPREADS = ("late", "idle_late", "run", "deviation")


def booked(probe: Live, kind: str) -> dict[str, int]:
    """Give how many values each histogram holds, over all callbacks of one kind."""
    found = [row for row in cast("dict[str, Data]", probe.snapshot()["timers"]).values() if row["kind"] == kind]
    return {name: sum(histogram.from_plain(row[name]).count for row in found) for name in SPREADS}


def test_a_deferrable_timer_has_no_lateness(tmp_path: Path) -> None:
    """It may wait as long as its CPU idles: its run is booked, no lateness (not even 0) is, and nothing counts as missed."""
    with live.deferrable_expiries(tmp_path) as expiries, live.live("timers") as probe, wheel_timers():
        probe.steer()
        time.sleep(0.5)  # the length of a jiffy is being measured
        least = expiries()
        before = booked(probe, "timer")
        inner = expiries()
        deadline = time.monotonic() + live.PATIENCE_S
        while expiries() < inner + 3 and time.monotonic() < deadline:
            time.sleep(0.1)
        after = booked(probe, "timer")
        most = expiries()
        if most < inner + 3:
            pytest.skip("no deferrable timer expires on this machine")
        gained = {name: after[name] - before[name] for name in SPREADS}
        left_out = gained["run"] - gained["late"] - gained["idle_late"]
        assert 1 <= left_out <= most - least
        assert gained["late"] + gained["idle_late"] > 0
        assert probe.stats()["timer_expire_entry"]["missed"] <= 2


def test_a_timer_on_a_stack_has_no_period() -> None:
    """A sleep arms a timer on its own stack, where the next one there may be another task's: late, but no deviation."""
    with live.live("timers") as probe:
        probe.steer()
        for _ in range(50):
            time.sleep(0.001)
        row = cast("dict[str, Data]", probe.snapshot()["timers"])["hrtimer_wakeup"]
    late, idle = (histogram.from_plain(row[name]).count for name in ("late", "idle_late"))
    assert late + idle >= 45
    assert histogram.from_plain(row["deviation"]).count == 0


def test_an_entry_of_another_callback_is_made_anew() -> None:
    """Two CPUs that take one way at once leave a key that names the other's entry: the next expiry mends it."""
    with live.live("timers") as probe:
        probe.steer()
        timer = TimerFd()
        timer.set(time.monotonic_ns(), 10 * MS)
        timer.wait()
        table = probe.maps.maps["callbacks"]
        found = ((at, timers.CALLBACK.unpack(table.lookup(at) or b"")) for at in table.keys())  # noqa: SIM118 - not a dict
        at, row = next((at, row) for at, row in found if str(row["name"]).startswith(TIMERFD))
        table.update(at, timers.CALLBACK.pack(**row | {"function": 0xBAD0, "name": "another", "starts": 1000}))
        timer.wait()
        timer.wait()
        timer.close()
        new = timers.CALLBACK.unpack(table.lookup(at) or b"")
        names = set(cast("Data", probe.snapshot()["timers"]))
    assert str(new["name"]).startswith(TIMERFD)
    assert new["function"] == row["function"]
    assert cast("int", new["made_ns"]) > cast("int", row["made_ns"])
    assert cast("int", new["starts"]) < 1000
    assert "another" not in names
