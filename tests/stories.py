"""A gateway in memory: workloads that behave as told, seen and treated through the whole pipeline, with doubles at the ports.

Time is a hand clock. Once a second everybody beats, or does not; each 3 s a health check; a tick each 10 s, and an alarm
whenever the pipeline asks for one, as agentd does it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import cast

from agent import actions
from agent.config import Workload
from agent.detectors import crash_loop, deadline, health_check, process_death, service_loss
from agent.model import Data, Decision, Sighting
from agent.pipeline import Pipeline
from agent.policies.ladder import Ladder
from agent.policies.response import Response
from agent.ports import Done
from agent.supervision.actionports import targets
from tests.doubles import HandClock, MemoryArchive, MemoryJournal, MemoryMachine, MemoryStore

NS = 1_000_000_000
KEEPER, AGENT = "keeper_link", "agent"
STEP_S, TICK_S, CHECK_S = 1.0, 10.0, 3.0


@dataclass
class Program:
    """A workload's process. `cures`: the orders after which it works again, and those that it obeys at all are `obeys`."""

    pid: int
    beats: bool = True
    starts_in_s: float = 1.0
    crashes_after_s: float | None = None
    answers: bool | None = None
    """What it says to health checks; None: it is not checked."""
    obeys: tuple[str, ...] = ("abort", "terminate", "restart")
    cures: tuple[str, ...] = ("abort", "terminate", "restart", "degrade")
    profile: str = ""
    ready_ns: int | None = None
    began_ns: int = 0
    sick: bool = False
    """It works no more, until something cures it."""


@dataclass
class Gateway:
    """All of it; `orders` and `machine.asked` are what was done, in order, with the second at which it was."""

    workloads: tuple[Workload, ...]
    mcu: bool = True
    supervised: tuple[str, ...] = ()
    starved: bool = False
    clock: HandClock = field(default_factory=lambda: HandClock(ns=100 * NS))
    store: MemoryStore = field(default_factory=MemoryStore)
    machine: MemoryMachine = field(default_factory=MemoryMachine)
    orders: list[tuple[float, str, str, str | None]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    programs: dict[str, Program] = field(default_factory=dict)
    _due: int | None = None
    _tick_ns: int = 0
    _check_ns: int = 0
    _starved_us: float = 0.0
    _later: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Put agentd together, and start every workload."""
        self.begun_ns = self.clock.ns
        self.ladder = Ladder("boot")
        self.ladder.learn(self.workloads, mcu=self.mcu, supervised=self.supervised)
        modules = (deadline, crash_loop, service_loss, health_check, process_death)
        recovery = actions.Recovery(self, self.machine, self.machine, self.machine, self.machine, targets(self.workloads))
        tools = actions.Tools(self.clock, MemoryJournal(), MemoryArchive(), {}, lambda _probe: None, recovery)
        self.pipeline = Pipeline(
            "boot",
            self.clock,
            self.store,
            [module.make(module.Options()) for module in modules],
            [Response(), self.ladder],
            actions.bound(tools),
            self._submit,
            lambda job: job(),
            lambda name, error: self.faults.append(f"{name}: {error!r}"),
            arm=self._arm,
        )
        for index, one in enumerate(self.workloads):
            self.programs[one.name] = Program(1000 * (index + 1))
            known: Data = {"deadline_s": one.deadline_s, "ceiling_s": 50.0, "liveness": one.notify}
            self.pipeline.sample(self._sighting(AGENT, "workload.known", one.name, known))
            self._begin(one.name)

    @property
    def second(self) -> float:
        """Seconds since the story began."""
        return (self.clock.ns - self.begun_ns) / NS

    def order(self, verb: str, name: str, reason: str, profile: str | None = None) -> Done:  # noqa: ARG002 - of the port
        """Do what the keeper would (`ports.Keeper`)."""
        one = self.programs[name]
        self.orders.append((round(self.second, 3), verb, name, profile))
        if verb in ("degrade", "restore"):
            one.profile = profile or ""
            one.sick = one.sick and verb not in one.cures
        elif verb in one.obeys:
            self._later.append(lambda: self._end(name, 6, cured=verb in one.cures))
        return Done(ok=True, detail="done", ms=1.0)

    def run(self, seconds: float) -> None:
        """Let time pass."""
        end = self.clock.ns + round(seconds * NS)
        while self.clock.ns < end:
            step = min(end, (self.clock.ns // NS + 1) * NS)
            due = self._due if self._due is not None and self._due > self.clock.ns else step
            moved = min(step, due) - self.clock.ns
            self.clock.ns += moved
            self.clock.wall_s += moved / NS
            if self.starved:
                self._starved_us += moved / 1000
            if self.clock.ns >= step:
                self._live()
            if self.clock.ns >= self._tick_ns + TICK_S * NS:
                self._look(self.pipeline.tick)
                self._tick_ns = self.clock.ns
            elif self._due is not None and self.clock.ns >= self._due:
                self._look(self.pipeline.alarm)
            self._settle()

    def happens(self, kind: str, name: str, /, source: str = KEEPER, **data: object) -> None:
        """Have an event happen now."""
        self._happens(kind, name, source, cast("Data", data))

    def crash(self, name: str, signal: int = 6, **data: object) -> None:
        """End a process; its keeper starts it again at once."""
        self._end(name, signal, cured=True, **data)

    def row(self, name: str) -> Data:
        """Give the ladder's row."""
        return self.ladder.row(name, self.clock.ns)

    def verbs(self, name: str) -> list[str]:
        """Give the orders about one workload."""
        return [verb for _, verb, whom, _ in self.orders if whom == name]

    def records(self, record: str, **wanted: object) -> list[Data]:
        """Give the records of one envelope with these values."""
        found = [one for batch, _ in self.store.batches for one in batch if one["record"] == record]
        return [one for one in found if all(one.get(key) == value for key, value in wanted.items())]

    def outcomes(self, action: str) -> list[Data]:
        """Give the outcomes of one action."""
        return self.records("outcome", action=action)

    def findings(self, detector: str) -> list[str]:
        """Give the states of the findings of one detector, in order."""
        return [str(one["state"]) for one in self.records("finding", detector=detector)]

    def _arm(self, due_ns: int | None) -> None:
        self._due = due_ns

    def _submit(self, _decision: Decision, job: Callable[[], None]) -> bool:
        job()
        return True

    def _settle(self) -> None:
        waiting, self._later = self._later, []
        for job in waiting:
            job()

    def _look(self, then: Callable[[], None]) -> None:
        total = self._starved_us
        psi: Mapping[str, float] = {"cpu_some_us_total": total, "memory_full_us_total": 0.0, "io_full_us_total": total}
        self.pipeline.sample(self._sighting(AGENT, "machine.pressure", "psi", cast("Data", dict(psi))))
        for name in self.programs:
            self.pipeline.sample(self._sighting(AGENT, "workload.starved", name, {"wait_us_total": 0.0, "run_us_total": 0.0}))
        then()

    def _live(self) -> None:
        """Let every program do its second of work."""
        checked = self.clock.ns >= self._check_ns + CHECK_S * NS
        self._check_ns = self.clock.ns if checked else self._check_ns
        for name, one in list(self.programs.items()):
            if one.ready_ns is not None and self.clock.ns >= one.ready_ns and one.began_ns < one.ready_ns:
                one.began_ns = one.ready_ns
                self._state(name, "running")
            well = one.ready_ns is not None and self.clock.ns >= one.ready_ns and not one.sick and not self.starved
            if well and one.beats:
                beats: Data = {"last_ns": self.clock.ns, "intervals_ms": [1000.0], "watchdog_us": 10_000_000}
                more: Data = {"extend_until_ns": None, "phase": "run"}
                self.pipeline.sample(self._sighting(KEEPER, "workload.beats", name, beats | more))
            if checked and one.answers is not None:
                ok = one.answers and well
                self.pipeline.sample(
                    self._sighting(AGENT, "workload.check", name, {"ok": ok, "ms": 5.0, "why": "" if ok else "status 503"})
                )
            after = one.crashes_after_s
            if after is not None and not one.profile and one.ready_ns and self.clock.ns >= one.ready_ns + after * NS:
                self.crash(name)

    def _begin(self, name: str) -> None:
        one = self.programs[name]
        one.began_ns, one.ready_ns = self.clock.ns, self.clock.ns + round(one.starts_in_s * NS)
        self._state(name, "starting")

    def _end(self, name: str, signal: int, *, cured: bool, **data: object) -> None:
        one = self.programs[name]
        old, one.pid, one.sick = one.pid, one.pid + 1, one.sick and not cured
        exited: Data = {"pid": old, "code": 0, "signal": signal, "core": False, "replaced_pid": one.pid, "replaced_ms": 2.0}
        self._happens("workload.exit", name, KEEPER, exited)
        if data:
            self.happens("proc.exit", name, "process_exit", pid=old, signal=signal, workload=name, required=True, **data)
        self._begin(name)

    def _state(self, name: str, state: str) -> None:
        ready = state == "running"
        told: Data = {"state": state, "pid": self.programs[name].pid, "reason": "", "restarts": 0, "ready": ready, "status": ""}
        self._happens("workload.state", name, KEEPER, told)

    def _happens(self, kind: str, name: str, source: str, data: Data) -> None:
        self.pipeline.take([self._sighting(source, kind, name, data)])
        self._settle()

    def _sighting(self, source: str, kind: str, subject: str, data: Data) -> Sighting:
        return Sighting(self.clock.ns, source, kind, subject, "warning", data)
