"""The watchdogs as agentd owns them: real loop, real thread, real files; the driver is in memory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from agent.config import Watchdog
from agent.linux import kmsg, pretimeout
from agent.linux.intent import DurableFile
from agent.linux.loop import EpollLoop
from agent.linux.watchdog import WDIOF_CARDRESET, WDIOF_MAGICCLOSE, WDIOF_PRETIMEOUT, WDIOF_SETTIMEOUT, Closed, KernelWatchdog
from agent.linux.watchdogfacts import WatchdogFacts
from agent.model import Sighting
from agent.resets.causes import Words
from agent.resets.lastwords import LastWords
from agent.watchdogs.delegation import decide
from agent.watchdogs.feeding import NS
from agent.watchdogs.owned import RETRY_S, Machine, Watchdogs
from tests.doubles import HandClock
from tests.watchdogdevices import MemoryDevice

FIRST = WatchdogFacts("watchdog0", "/dev/watchdog0", "i6300ESB timer", timeout_s=30, nowayout=False)
SECOND = WatchdogFacts("watchdog1", "/dev/watchdog1", "Software Watchdog", nowayout=True)
BUSY = Closed("busy", "/dev/watchdog0 is already open: watchdogd (pid 7)", "one owner only")


@dataclass
class Bench:
    """A machine with watchdogs in memory, and agentd's part on it."""

    folder: Path
    settings: Watchdog = field(default_factory=lambda: Watchdog(mode="own"))
    devices: dict[str, MemoryDevice | Closed] = field(default_factory=lambda: {"watchdog0": MemoryDevice()})
    facts: tuple[WatchdogFacts, ...] = (FIRST,)
    systemd_s: float = 0.0
    notify_s: float | None = None
    service: bool = True
    clock: HandClock = field(default_factory=HandClock)
    told: list[Sighting] = field(default_factory=list)
    notified: list[str] = field(default_factory=list)
    evidence: Any = "none"

    def __post_init__(self) -> None:
        """Build it."""
        self.loop = EpollLoop(self._raise)
        words = Words("boot1", "1.0")
        self.words = LastWords(DurableFile(self.folder / "intent.json"), self.clock, words, lambda _text: None)
        machine = Machine(
            facts=lambda: self.facts,
            acquire=self._acquire,
            systemd_s=lambda: self.systemd_s,
            kmsg_fd=lambda: os.open(self.folder / "kmsg", os.O_RDONLY | os.O_CREAT),
            notify=self.notified.append,
            notify_s=self.notify_s,
            service=self.service,
            lock=lambda: "locked",
        )
        self.dogs = Watchdogs(self.settings, self.loop, self.clock, self.words, self.told.append, machine)
        self.dogs.start()

    def _raise(self, name: str, error: Exception) -> None:
        raise AssertionError(name) from error

    def _acquire(self, facts: WatchdogFacts, settings: Watchdog) -> KernelWatchdog | Closed:
        device = self.devices[facts.name]
        if isinstance(device, Closed):
            return device
        return KernelWatchdog(facts, device, self.evidence, settings.timeout_s, settings.pretimeout_s)

    def device(self, name: str = "watchdog0") -> MemoryDevice:
        """Give one that is open."""
        return cast("MemoryDevice", self.devices[name])

    def serve(self, done: Callable[[], bool]) -> None:
        """Run the loop until `done`, at most 5 s."""
        end = time.monotonic() + 5
        while not done():
            assert time.monotonic() < end
            self.loop.once(0.01, self.loop.stop, "stop")
            self.loop.run()

    def pass_s(self, seconds: float, *reporting: str) -> None:
        """Let time pass in ticks of 10 s, with reports of `reporting` in each."""
        for _ in range(int(seconds / 10)):
            self.clock.pass_s(10)
            for name in reporting:
                self.dogs.report(name, self.clock.ns)
            self.dogs.tick()

    def kinds(self) -> list[str]:
        """Give the kinds of what was told."""
        return [found.kind for found in self.told]

    def row(self, name: str = "watchdog0") -> dict[str, Any]:
        """Give one row."""
        rows = cast("list[dict[str, Any]]", self.dogs.rows())
        return next(row for row in rows if row["name"] == name)


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Bench]]:
    """Give a function that builds a bench; all are given back afterwards."""
    made: list[Bench] = []

    def build(**changes: Any) -> Bench:
        made.append(Bench(tmp_path, **changes))
        return made[-1]

    yield build
    for bench in made:
        bench.dogs.close(shutdown=False)
        bench.loop.close()


def test_it_is_fed_as_long_as_the_work_reports(make: Callable[..., Bench]) -> None:
    """Pins the whole way: reports in, keepalive out by the feeding thread, the margin in the row."""
    bench = make()
    bench.dogs.require(["a"])
    before = bench.device().feeds
    for number in range(5):
        bench.pass_s(10, "a")
        bench.serve(lambda number=number: bench.row()["feeds"] == number + 1)  # type: ignore[misc]
    assert bench.device().feeds == before + 5
    row = bench.row()
    assert (row["state"], row["condition"], row["owner"], row["ttl_s"], row["misses"]) == ("ok", "armed", "agentd", 60, 0)
    assert 45 <= row["margin_p1_s"] <= 50 <= row["margin_s"] <= 60


def test_work_that_stops_is_fed_no_more_and_named_in_time(make: Callable[..., Bench]) -> None:
    """Pins the reset on purpose: no feed, an event that names who, and last words on disk before the time is up."""
    bench = make()
    bench.dogs.require(["a", "b"])
    bench.pass_s(10, "a", "b")
    fed = bench.device().feeds
    bench.pass_s(40, "a")
    assert bench.device().feeds <= fed + 1
    missed = [found for found in bench.told if found.kind == "watchdog.missed"]
    assert [found.data["missing"] for found in missed] == [["b"]]
    assert missed[0].data["left_s"] == 30.0
    assert bench.words.now.phase == "missed"
    assert '"phase":"missed"' in (bench.folder / "intent.json").read_text()
    assert (bench.row()["condition"], bench.row()["misses"]) == ("withheld", 1)
    bench.pass_s(10, "a", "b")
    assert bench.kinds()[-1] == "watchdog.recovered"
    assert (bench.words.now.phase, bench.row()["state"]) == ("run", "ok")


def test_an_agentd_that_does_not_tick_feeds_nothing(make: Callable[..., Bench]) -> None:
    """Pins that reports of work alone do not feed."""
    bench = make()
    bench.dogs.require(["a"])
    fed = bench.device().feeds
    for _ in range(5):
        bench.clock.pass_s(10)
        bench.dogs.report("a", bench.clock.ns)
    assert bench.device().feeds == fed


def test_several_devices_one_of_them_busy(make: Callable[..., Bench]) -> None:
    """Pins that each has its state, that a busy one names its holder, is tried again, and hinders no other."""
    bench = make(facts=(FIRST, SECOND), devices={"watchdog0": BUSY, "watchdog1": MemoryDevice()})
    assert (bench.row()["condition"], bench.row()["state"], bench.row()["reason"]) == ("busy", "degraded", BUSY.reason)
    assert bench.row("watchdog1")["condition"] == "armed"
    assert not bench.row("watchdog1")["hardware"]
    bench.devices["watchdog0"] = MemoryDevice()
    bench.pass_s(RETRY_S)
    assert bench.row()["condition"] == "armed"
    assert bench.kinds().count("watchdog.closed") == 1, "a state that lasts is told once"


def test_a_device_that_is_lost_is_let_go_and_taken_back(make: Callable[..., Bench]) -> None:
    """Pins a driver that goes away under us."""
    bench = make()
    bench.device().gone = True
    bench.pass_s(10)
    bench.serve(lambda: "watchdog.closed" in bench.kinds())
    assert (bench.row()["condition"], bench.words.now.armed) == ("failed", {})
    bench.devices["watchdog0"] = MemoryDevice()
    bench.pass_s(RETRY_S)
    assert bench.row()["condition"] == "armed"


def test_the_ticks_that_a_short_time_out_wants(make: Callable[..., Bench]) -> None:
    """Pins that 15 s of bcm2835 ask for a tick every 5 s, and systemd's own 30 s for one every 10 s."""
    assert make(devices={"watchdog0": MemoryDevice(most_s=15)}).dogs.tick_s == 5
    assert make(facts=(), notify_s=30.0).dogs.tick_s == 10
    assert make(facts=()).dogs.tick_s is None


def test_delegated_systemd_hears_of_the_gate_alone(make: Callable[..., Bench]) -> None:
    """Pins delegation: WATCHDOG=1 exactly when all work has reported; nothing is opened."""
    bench = make(settings=Watchdog(mode="delegated"), devices={}, systemd_s=60.0, notify_s=30.0)
    bench.dogs.require(["a"])
    bench.pass_s(30, "a")
    assert bench.notified == ["WATCHDOG=1"] * 3
    bench.pass_s(30)
    assert bench.notified == ["WATCHDOG=1"] * 3
    assert "watchdog.missed" in bench.kinds()
    assert (bench.row()["condition"], bench.row()["owner"], bench.row()["ttl_s"]) == ("delegated", "systemd", 30)


def test_owned_systemd_watches_agentd_alone(make: Callable[..., Bench]) -> None:
    """Pins that a workload that hangs does not make systemd kill the agent that is about to mend it."""
    bench = make(notify_s=30.0)
    bench.dogs.require(["a"])
    bench.pass_s(30)
    assert bench.notified == ["WATCHDOG=1"] * 3


def test_a_hold_feeds_without_the_work(make: Callable[..., Bench]) -> None:
    """Pins maintenance."""
    bench = make()
    bench.dogs.require(["a"])
    bench.dogs.hold(True)
    fed = bench.device().feeds
    bench.pass_s(20)
    bench.serve(lambda: bench.device().feeds > fed)
    bench.dogs.hold(False)
    bench.pass_s(40)
    assert bench.row()["condition"] == "withheld"


def test_a_clock_step_changes_nothing(make: Callable[..., Bench]) -> None:
    """Pins systemd issue 5014: the wall clock goes back a year, and feeding goes on."""
    bench = make()
    bench.clock.wall_s -= 3e7
    bench.pass_s(20)
    bench.serve(lambda: bench.row()["feeds"] >= 1)
    assert "watchdog.missed" not in bench.kinds()


def test_a_readable_pretimeout_is_evidence(make: Callable[..., Bench]) -> None:
    """Pins IPMI's way: the device becomes readable, an event and last words follow."""
    options = WDIOF_SETTIMEOUT | WDIOF_MAGICCLOSE | WDIOF_PRETIMEOUT | WDIOF_CARDRESET
    end, other = os.pipe()
    bench = make(devices={"watchdog0": MemoryDevice(options=options, fd=end)}, evidence="fd")
    bench.dogs.require(["a"])
    os.write(other, b"\0")
    bench.serve(lambda: "watchdog.pretimeout" in bench.kinds())
    assert bench.told[-1].data["evidence"] == "fd"
    assert bench.words.now.reason == "supervisor: a, agentd missed its deadline, pretimeout of watchdog0"
    os.close(other)
    bench.loop.forget(end)
    os.close(end)


def test_the_words_of_the_noop_governor() -> None:
    """Pins the line of pretimeout_noop.c, and that no other line counts."""
    assert pretimeout.parse("watchdog0: pretimeout event") == "watchdog0"
    assert pretimeout.parse("watchdog: watchdog12: pretimeout event") == "watchdog12"
    assert pretimeout.parse("forged watchdog0: pretimeout event") == ""
    assert pretimeout.parse("watchdog: watchdog0: watchdog did not stop!") == ""


@pytest.mark.root
@pytest.mark.kmsg
def test_the_noop_governor_is_heard_in_the_kernels_log() -> None:
    """Pins the way through /dev/kmsg itself: from the end of the log on, each pretimeout once, no other line."""
    heard: list[str] = []
    loop = EpollLoop(lambda _name, _error: None)
    log = pretimeout.PretimeoutLog(loop, kmsg.open_kmsg(), heard.append)
    with Path("/dev/kmsg").open("w") as kernel:
        kernel.write("<1>watchdog77: pretimeout event")
        kernel.flush()
        kernel.write("<6>watchdog77: another line")
    end = time.monotonic() + 5
    while not heard and time.monotonic() < end:
        loop.once(0.01, loop.stop, "stop")
        loop.run()
    assert heard == ["watchdog77"]
    log.close()
    loop.close()


def test_something_else_may_be_fed_too(make: Callable[..., Bench]) -> None:
    """Pins the second kind of feeder, as the microcontroller's lease is, beside the first."""

    @dataclass
    class Lease:
        name: str = "mcu"
        ttl_s: float = 20.0
        feeds: int = 0

        def feed(self) -> None:
            self.feeds += 1

    bench, lease = make(), Lease()
    bench.dogs.add(lease, lambda: {"kind": "mcu", "evidence": "eventlog"})
    bench.pass_s(10)
    bench.serve(lambda: lease.feeds == 1)
    assert bench.row("mcu")["kind"] == "mcu"
    assert bench.dogs.tick_s == pytest.approx(20 / 3)


def test_the_end_disarms_or_covers_a_shutdown(tmp_path: Path) -> None:
    """Pins both ends, and the last words of each."""
    bench = Bench(tmp_path)
    bench.dogs.close(shutdown=False)
    assert (bench.device().closed, bench.words.now.phase) == ("disarmed", "stopped")
    bench.loop.close()
    bench = Bench(tmp_path)
    bench.dogs.close(shutdown=True)
    assert (bench.device().closed, bench.device().timeout_s) == ("counting", 180)
    bench.loop.close()


@pytest.mark.parametrize(
    ("mode", "systemd_s", "service", "owned"),
    [
        ("auto", 0.0, True, ["watchdog0", "watchdog1"]),
        ("auto", 60.0, True, ["watchdog1"]),
        ("auto", 0.0, False, []),
        ("own", 60.0, False, ["watchdog0", "watchdog1"]),
        ("delegated", 60.0, True, []),
        ("off", 0.0, True, []),
    ],
)
def test_who_feeds_which(mode: Any, systemd_s: float, service: bool, owned: list[str]) -> None:  # noqa: FBT001
    """Pins the decision: in the foreground nothing is armed by itself, and what systemd feeds is left to it."""
    plan = decide(Watchdog(mode=mode), (FIRST, SECOND), systemd_s, service=service)
    assert [one.name for one in plan.own] == owned
    assert {one.name for one in (*plan.own, *plan.delegated, *plan.idle)} == {"watchdog0", "watchdog1"}
    assert plan.why


def test_only_the_devices_that_are_named() -> None:
    """Pins `devices`."""
    plan = decide(Watchdog(mode="own", devices=(Path("/dev/watchdog1"),)), (FIRST, SECOND), 0.0, service=True)
    assert (plan.own, plan.idle) == ((SECOND,), (FIRST,))


def test_a_quiet_agentd_costs_no_wake_up(make: Callable[..., Bench]) -> None:
    """Pins that feeding has no timer of its own: without reports the loop sleeps."""
    bench = make()
    before = bench.loop.wakeups
    bench.loop.once(1.0, bench.loop.stop, "stop")
    bench.loop.run()
    assert bench.loop.wakeups - before <= 2
    assert bench.clock.ns < 2 * NS
