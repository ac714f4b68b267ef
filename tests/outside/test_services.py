"""Services of another parent: real processes that end, and a parent that tells what it made of them."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from agent.config import Workload
from agent.detectors import crash_loop
from agent.errors import NotRunning
from agent.linux import cgroups
from agent.linux.clock import SystemClock
from agent.linux.loop import EpollLoop
from agent.linux.servicestate import ServiceState
from agent.model import Event, Sighting
from agent.outside.services import Services


@dataclass
class Parent:
    """What systemd would be for one unit: real children, and what `systemctl show` would say of them."""

    state: ServiceState | None = None
    error: str = ""
    asked: int = 0
    slow_s: float = 0.0
    """How long it takes to take note of an end."""
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, **more: Any) -> int:
        """Start a process."""
        child = subprocess.Popen(["sleep", "300"])
        self.children.append(child)
        self.state = ServiceState("running", child.pid, "active (running)", **more)
        return child.pid

    def end(self, then: Callable[[int], object]) -> None:
        """End the process; `then(pid)` says what becomes of it, as late as this parent is slow."""
        child = self.children[-1]

        def reap() -> None:
            child.kill()
            child.wait()
            time.sleep(self.slow_s)
            then(child.pid)

        threading.Thread(target=reap).start()

    def ask(self, _workload: Workload) -> ServiceState:
        """Answer."""
        self.asked += 1
        if self.error:
            raise NotRunning(self.error)
        assert self.state is not None
        return self.state

    def close(self) -> None:
        """End everything."""
        for child in self.children:
            child.kill()
            child.wait()


@dataclass
class Box:
    """Services on a loop of their own."""

    parent: Parent
    loop: EpollLoop
    told: list[Sighting]
    unknown: list[str]
    masters: list[set[str]]
    services: Services

    def run(self, until: Callable[[], bool], limit_s: float = 10) -> None:
        """Run until something is so."""
        end = time.monotonic() + limit_s

        def look() -> None:
            if until() or time.monotonic() > end:
                self.loop.stop()
            else:
                self.loop.once(0.01, look, "look")

        look()
        self.loop.run()
        assert until(), self.kinds()

    def kinds(self) -> list[str]:
        """Give what was told, in short."""
        return [f"{one.kind.removeprefix('workload.')} {one.data.get('state', one.data['pid'])}" for one in self.told]


def in_thread(job: Callable[[], None]) -> bool:
    """Run a job where it may block."""
    threading.Thread(target=job).start()
    return True


@pytest.fixture
def box() -> Iterator[Box]:
    """Give a unit named `a`."""
    errors: list[Exception] = []
    parent, loop = Parent(), EpollLoop(lambda _name, error: errors.append(error))
    told: list[Sighting] = []

    def take(found: Sequence[Sighting]) -> None:
        told.extend(found)

    services = Services([Workload("a", unit="a.service")], loop, SystemClock(), parent.ask, in_thread, take)
    made = Box(parent, loop, told, [], [], services)
    services.unknown = lambda name, why: made.unknown.append(f"{name}: {why}")
    services.supervised = lambda names: made.masters.append(set(names))
    yield made
    services.close()
    loop.close()
    parent.close()
    assert not errors


def loops(told: Sequence[Sighting]) -> list[str]:
    """Give what the crash-loop detector makes of it."""
    detector = crash_loop.make(crash_loop.Options())
    events = [
        Event("boot", seq, one.t_mono_ns, 0.0, one.source, one.kind, one.subject, one.severity, one.data)
        for seq, one in enumerate(told, 1)
    ]
    return [finding.summary for event in events for finding in detector.see(event)]


def test_a_crash_that_systemd_mends(box: Box) -> None:
    """Pins the end at once by its pidfd, and its replacement, with how it ended, as soon as the parent has noted it."""
    box.parent.slow_s = 0.2
    first = box.parent.start(supervised=True, restarts=1)
    box.services.start()
    box.run(lambda: len(box.told) == 1)
    assert box.masters == [{"a"}]
    assert box.services.row("a", 0) == {"supervised": True, "by": "a.service"}

    def again(pid: int) -> None:
        box.parent.start(supervised=True, restarts=2)
        assert box.parent.state is not None
        box.parent.state = replace(box.parent.state, last_pid=pid, code=0, signal=9, core=False)

    box.parent.end(again)
    box.run(lambda: len(box.told) == 4)
    second = box.parent.children[-1].pid
    assert box.kinds() == ["state running", f"exit {first}", f"restarted {second}", "state running"]
    data = box.told[1].data
    assert (data["signal"], data["code"], data["replaced_pid"]) == (9, 0, second)
    assert 200 <= float(str(data["replaced_ms"])) < 5000
    asked = box.parent.asked
    box.loop.once(0.3, box.loop.stop, "wait")
    box.loop.run()
    box.services.tick()
    assert box.parent.asked == asked, "what runs is not asked"


def test_given_up_by_its_parent(box: Box) -> None:
    """Pins `failed`, with systemd's reason, once its start limit is hit: the finding whose cause is gave_up."""
    box.parent.start(supervised=True)
    box.services.start()
    box.run(lambda: len(box.told) == 1)

    def give_up(pid: int) -> None:
        box.parent.state = ServiceState("failed", None, "failed (failed): start-limit-hit", 5, True, pid, 1, 0, False)

    box.parent.end(give_up)
    box.run(lambda: "state failed" in box.kinds())
    assert [one.severity for one in box.told] == ["info", "warning", "error"]
    assert loops(box.told) == ["a: given up by its parent: failed (failed): start-limit-hit"]


def test_what_somebody_ordered_is_no_crash(box: Box) -> None:
    """Pins that five restarts by hand, which its parent does not count, and a stop, are told as such: no loop."""
    box.parent.start()
    box.services.start()
    box.run(lambda: len(box.told) == 1)
    for count in range(1, 6):
        box.parent.end(lambda _pid: box.parent.start())
        box.run(partial(has_run, box, count + 1))

    def stop(_pid: int) -> None:
        box.parent.state = ServiceState("stopped", None, "inactive (dead)")

    box.parent.end(stop)
    box.run(lambda: "state stopped" in box.kinds())
    assert box.kinds().count("state stopping") == 6
    assert loops(box.told) == []


def test_crashes_again_and_again_are_a_loop(box: Box) -> None:
    """Pins that restarts which its parent counts are ends of its own."""
    box.parent.start(supervised=True)
    box.services.start()
    box.run(lambda: len(box.told) == 1)
    for count in range(1, 5):
        box.parent.end(partial(started, box, count))
        box.run(partial(has_run, box, count + 1))
    assert len(loops(box.told)) == 1


def has_run(box: Box, times: int) -> bool:
    """Whether so many processes were told to run."""
    return box.kinds().count("state running") == times


def started(box: Box, count: int, _pid: int) -> None:
    """Start the next one, as the parent counts them."""
    box.parent.start(supervised=True, restarts=count)


def test_a_parent_that_takes_its_time(box: Box) -> None:
    """Pins that a unit which starts for long is asked again with growing pauses, at most 5 s, until it has settled."""
    box.parent.state = ServiceState("starting", None, "activating (start-pre)")
    box.services.start()
    box.loop.once(1.0, box.loop.stop, "wait")
    box.loop.run()
    assert 3 <= box.parent.asked <= 6
    box.parent.start()
    box.run(lambda: "state running" in box.kinds())
    assert box.kinds() == ["state starting", "state running"]


def test_nobody_to_ask(box: Box) -> None:
    """Pins that a broker that is away makes it unknown, with the reason, no event, and known again when it is back."""
    box.parent.error = "/run/gatewarden/broker.sock: nobody listens"
    box.services.start()
    box.run(lambda: len(box.unknown) >= 2)
    assert box.unknown[0] == "a: /run/gatewarden/broker.sock: nobody listens"
    assert box.told == []
    box.parent.start()
    box.parent.error = ""
    box.run(lambda: bool(box.told))
    assert box.kinds() == ["state running"]


def test_started_by_somebody_else(box: Box) -> None:
    """Pins that a unit which nobody told of is found by tick once it runs, at the latest after five minutes."""
    box.parent.state = ServiceState("stopped", None, "inactive (dead)")
    box.services.start()
    box.run(lambda: len(box.told) == 1)
    box.parent.start()
    box.services.tick()
    box.loop.once(0.2, box.loop.stop, "wait")
    box.loop.run()
    assert box.parent.asked == 1
    box.services._all["a"].asked_ns -= 301_000_000_000
    box.services.tick()
    box.run(lambda: "state running" in box.kinds())


def test_units_that_come_and_go_by_their_cgroups(tmp_path: Path) -> None:
    """Pins that only our units are told of, from any tree, and a machine without systemd has none."""
    heard: list[str] = []
    loop = EpollLoop(lambda _name, _error: None)
    slices = [tmp_path / tree / "system.slice" for tree in ("sys/fs/cgroup/unified", "sys/fs/cgroup/systemd")]
    for folder in slices:
        folder.mkdir(parents=True)
    made = cgroups.UnitFolders(loop, ["a.service", "b.service"], heard.append, tmp_path)
    for name in ("a.service", "other.service"):
        (slices[0] / name).mkdir()
    (slices[1] / "b.service").mkdir()
    (slices[1] / "b.service").rmdir()
    loop.once(0.1, loop.stop, "limit")
    loop.run()
    assert heard == ["a.service", "b.service"]
    made.close()
    cgroups.UnitFolders(loop, ["a.service"], heard.append, tmp_path / "nosuch").close()
    cgroups.UnitFolders(loop, [], heard.append, tmp_path).close()
    loop.close()
