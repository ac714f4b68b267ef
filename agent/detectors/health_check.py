"""health_check: workloads that answer their health check from outside wrongly, late or not at all.

    ok ── 1 failure ──► degraded ── 3 in a row (6 while the machine starves) ──► critical ── 2 good ones in a row ──► ok

A new process is given its start-up time, learned as `deadline` learns it: until its first good check, failures are none. What
is stopped, on hold or given up is not expected to answer: that it does not run is told elsewhere. The machine starves while
memory or I/O holds up everything, or somebody waits for a CPU, for more than half of the time between two readings.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent import narrow
from agent.detectors._adaptive import Estimate, bounds
from agent.detectors._cases import SUBJECTS, number, word
from agent.detectors._starvation import Totals, starved_s
from agent.model import Data, Event, Finding, State

NAME = "health_check"
KINDS = frozenset({"workload.check", "workload.state", "machine.pressure"})
NS = 1_000_000_000
FAILURES, FAILURES_STARVED, GOOD = 3, 6, 2
STARVED = 0.5
IDLE = ("stopped", "held", "failed")
START = bounds("start", 0, None, None)


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.health_check]`: what is checked, and how often, is `probe` of each `[[workload]]`."""


@dataclass(slots=True)
class _Workload:
    state: State = "ok"
    failures: int = 0
    good: int = 0
    pid: int | None = None
    began_ns: int = 0
    idle: bool = False
    answered: bool = False
    """Whether this process has ever answered well."""
    start: Estimate = field(default_factory=Estimate)


class HealthCheck:
    """`ports.Detector`."""

    name = NAME

    def __init__(self) -> None:
        """Start without an opinion."""
        self._all: dict[str, _Workload] = {}
        self._totals: Totals | None = None
        self._starved = False

    def see(self, event: Event) -> Iterable[Finding]:
        """Take one check, state or reading in."""
        if event.kind == "machine.pressure":
            self._pressure(event)
        elif event.kind == "workload.state":
            return self._state(event)
        elif event.kind == "workload.check":
            return self._check(event)
        return ()

    def tick(self, now_ns: int) -> Iterable[Finding]:  # noqa: ARG002 - counts checks, not time
        """Do nothing: only checks end a finding."""
        return ()

    def _pressure(self, event: Event) -> None:
        data = event.data
        some, memory, io = (
            number(data, "cpu_some_us_total"),
            number(data, "memory_full_us_total"),
            number(data, "io_full_us_total"),
        )
        fresh = Totals(some, memory, io, at_ns=event.t_mono_ns)
        if self._totals is not None:
            elapsed_s = (fresh.at_ns - self._totals.at_ns) / NS
            self._starved = elapsed_s > 0 and starved_s(self._totals, fresh, elapsed_s) > STARVED * elapsed_s
        self._totals = fresh

    def _state(self, event: Event) -> list[Finding]:
        one, pid = self._known(event), narrow.count(event.data.get("pid")) or None
        if one is None:
            return []
        if pid != one.pid:
            one.pid, one.began_ns, one.answered, one.failures = pid, event.t_mono_ns, False, 0
        one.idle = event.data.get("state") in IDLE
        if not one.idle or one.state == "ok":
            return []
        one.state = "ok"
        return [Finding(event.t_mono_ns, NAME, event.subject, "ok", f"it is {event.data.get('state')}")]

    def _known(self, event: Event) -> _Workload | None:
        if event.subject not in self._all and len(self._all) < SUBJECTS:
            self._all[event.subject] = _Workload(began_ns=event.t_mono_ns)
        return self._all.get(event.subject)

    def _check(self, event: Event) -> list[Finding]:
        one = self._known(event)
        if one is None or one.idle:
            return []
        if event.data.get("ok"):
            return self._good(event, one)
        if not one.answered and event.t_mono_ns - one.began_ns < self._start_s(one) * NS:
            return []
        one.failures, one.good = one.failures + 1, 0
        worse: State = "critical" if one.failures >= (FAILURES_STARVED if self._starved else FAILURES) else "degraded"
        if one.state in (worse, "critical"):
            return []
        one.state = worse
        why = word(event.data, "why", "no reason told")
        data: Data = {
            "cause": NAME,
            "failures": one.failures,
            "why": why,
            "ms": event.data.get("ms"),
            "settle_s": self._start_s(one),
        }
        times = f", {one.failures} times in a row" if one.failures > 1 else ""
        return [Finding(event.t_mono_ns, NAME, event.subject, worse, f"{event.subject}: {why}{times}", (), data)]

    def _good(self, event: Event, one: _Workload) -> list[Finding]:
        if not one.answered and one.pid is not None:
            one.start.learn(max(0, event.t_mono_ns - one.began_ns) / NS, START)
        one.answered, one.failures, one.good = True, 0, one.good + 1
        if one.state == "ok" or one.good < GOOD:
            return []
        one.state = "ok"
        return [Finding(event.t_mono_ns, NAME, event.subject, "ok", f"{GOOD} good checks in a row")]

    def _start_s(self, one: _Workload) -> float:
        return one.start.deadline_s(START)


def make(options: Options) -> HealthCheck:  # noqa: ARG001 - every detector is made in the same way
    """Make the detector."""
    return HealthCheck()
