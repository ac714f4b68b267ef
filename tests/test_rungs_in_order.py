"""Every rung on real processes, up to the broker's and the microcontroller's doors: those are doubles, and time is moved on.

The parts of agentd are the real ones, on a loop of this process, with a clock that runs a hundred times as fast while nothing
is being done and the ladder waits for what a rung achieved; keeper and workloads are processes of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from agent import actions, config
from agent.actions import Tools
from agent.detectors import deadline
from agent.linux.loop import EpollLoop
from agent.linux.worker import Worker
from agent.model import Data
from agent.pipeline import Pipeline
from agent.policies._rungs import RUNGS
from agent.policies.response import Response
from agent.ports import Action
from agent.supervision import actionports
from agent.supervision.recovering import Recovering
from agent.supervision.supervising import Supervising
from tests.doubles import NOW, MemoryArchive, MemoryJournal, MemoryMachine, MemoryStore
from tests.keepers import keeper, python, workload

STEP_S = 0.05
HANGS = """
import time
from agent import watch
with watch.Watch() as me:
    me.beat()
    time.sleep(1000)
"""
OBEYS = """
import time
from agent import watch
with watch.Watch(on_profile=lambda name: None) as me:
    while True:
        time.sleep(0.05)
        me.beat()
"""


class HurriedClock:
    """`Clock`: the real one, and what was added to it."""

    def __init__(self) -> None:
        self.added_s = 0.0

    def mono_ns(self) -> int:
        """Monotonic time in ns."""
        return time.monotonic_ns() + int(self.added_s * 1e9)

    def wall(self) -> float:
        """Wall time in seconds."""
        return NOW + self.added_s


class House:
    """agentd without its probes, its outbox and its watchdogs."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        """Put it together as the daemon does."""
        self.settings = config.from_plain(config.to_plain(config.check(path)))
        self.clock, self.store, self.machine = HurriedClock(), MemoryStore(), MemoryMachine()
        self.faults: list[str] = []
        self.loop = EpollLoop(lambda name, error: self.faults.append(f"{name}: {error}"))
        stack.callback(self.loop.close)
        worker = Worker("test")
        stack.callback(worker.close)
        detectors = [deadline.make(deadline.Options())]
        self.recovering = Recovering(self.settings, "b" * 32, self.clock, detectors, worker.submit, self.faults.append)
        acts: dict[str, Action] = {}
        self.pipeline = Pipeline(
            boot_id="b" * 32,
            clock=self.clock,
            store=self.store,
            detectors=detectors,
            policies=[Response(), self.recovering.ladder],
            actions=acts,
            submit=self.recovering.submit,
            back=self.loop.call_soon_threadsafe,
            fault=lambda name, error: self.faults.append(f"{name}: {error}"),
            done=self.recovering.done,
        )
        self.supervising = Supervising(self.settings, self.loop, self.clock, self.pipeline, lambda _key: 0, lambda _text: None)
        stack.callback(self.supervising.close)
        one = self.machine
        ports = actionports.recovery(self.settings.workload, one, self.supervising.keeper, one, one, self.supervising.threads)
        acts |= actions.bound(Tools(self.clock, MemoryJournal(), MemoryArchive(), {}, lambda _probe: None, ports))

    def of(self, record: str) -> list[Data]:
        """Give the decisions on rungs, or the outcomes of rungs, in the order in which they came."""
        records = [one for batch, _cursors in self.store.batches for one in batch if one["record"] == record]
        return [one for one in records if one["action"] != "log"]

    def run(self, done: Callable[[], bool], limit_s: float) -> None:
        """Run until `done`, or for `limit_s` of real time."""
        self.recovering.start(mcu=True)
        self.recovering.judged("unknown")
        self.supervising.start(None)
        end = time.monotonic() + limit_s

        def step() -> None:
            waits = any(one.open for one in self.recovering.ladder._standings.values())
            busy = len(self.of("decision")) > len(self.of("outcome"))
            self.clock.added_s += 100 * STEP_S if waits and not busy else STEP_S
            self.supervising.look()
            self.pipeline.tick()
            if done() or time.monotonic() > end:
                self.loop.stop()

        self.loop.every(STEP_S, step, "step")
        self.loop.run()


def test_every_rung_is_taken_in_its_order(lab_config: Callable[..., Path]) -> None:
    """A workload that hangs whatever is done climbs the whole ladder, from capture to power cycle, each rung once."""
    stubborn = workload("stubborn", python(HANGS), notify="watchdog", deadline_s=2, degrade=["low"])
    viewer = workload("viewer", python(OBEYS), after=["stubborn"])
    path = lab_config('[probes]\nenabled = []\n[detectors]\nenabled = ["deadline"]\n' + stubborn + viewer)
    with keeper(path) as kept, ExitStack() as stack:
        house = House(path, stack)
        house.run(lambda: len(house.of("outcome")) >= len(RUNGS), 60)
        outcomes, said = house.of("outcome"), kept.said()
    assert [one["action"] for one in outcomes] == [rung.name for rung in RUNGS], house.faults
    assert [one["action"] for one in outcomes if not one["ok"]] == []
    assert house.faults == []
    orders = [line.split()[1] for line in said.splitlines() if line.startswith("<6>order")]
    assert orders == ["verb=abort", "verb=restart", "verb=restart", "verb=restart", "verb=degrade"]
    assert [words[0] for words in house.machine.asked] == ["intent", "reboot", "intent", "power cycle"]
    assert [name for name, *_ in [words[1:] for words in house.machine.asked]][::2] == ["reboot", "power_cycle"]
