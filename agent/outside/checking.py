"""Health checks of workloads (`probe =`): asked each period, answers and counts shown to the detectors.

All checks of one period are begun by one timer, and none waits: each is a non-blocking dialogue with its own time-out. What
we ourselves could not ask (a name that does not resolve, no descriptor left) is no answer of the workload's, and no sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from agent.config import HealthProbe, Workload
from agent.errors import GatewardenError
from agent.linux import counterfile
from agent.linux.dialogue import Answer, Dialogue
from agent.linux.loop import EpollLoop
from agent.linux.resolver import Resolver
from agent.model import Data, Sighting
from agent.outside._questions import Question, question
from agent.ports import Clock

SOURCE = "agent"


@dataclass(slots=True)
class Work:
    """The count of one workload: a beat whenever another value is seen than before. Pure."""

    seen: object = None
    since_ns: int | None = None

    def beat(self, value: object, now_ns: int) -> Data | None:
        """Take a reading in; the first one is what later ones differ from, and proves nothing."""
        if value == self.seen:
            return None
        first, self.seen = self.seen is None, value
        if first:
            return None
        intervals = [] if self.since_ns is None else [round((now_ns - self.since_ns) / 1e6, 1)]
        self.since_ns = now_ns
        beat: Data = {"last_ns": now_ns, "intervals_ms": list(intervals), "phase": "run"}
        return beat | {"watchdog_us": None, "extend_until_ns": None}


@dataclass(slots=True)
class _Check:
    name: str
    probe: HealthProbe
    question: Question | None
    work: Work = field(default_factory=Work)
    dialogue: Dialogue | None = None
    last: Data | None = None
    unasked: str = ""
    failures: int = 0


class Checking:
    """One per agentd, on the loop's thread; `shown(sighting)` takes samples, `say` tells an operator."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        loop: EpollLoop,
        clock: Clock,
        shown: Callable[[Sighting], None],
        say: Callable[[str], None],
    ) -> None:
        """Ask nothing yet."""
        self._loop, self._clock, self._shown, self._say = loop, clock, shown, say
        self._resolver = Resolver(clock)
        self._checks = {
            one.name: _Check(one.name, one.probe, question(one.probe)) for one in workloads if one.probe is not None
        }

    def start(self) -> None:
        """Ask from now on."""
        periods: dict[float, list[_Check]] = {}
        for check in self._checks.values():
            periods.setdefault(check.probe.period_s, []).append(check)
        for period_s, checks in periods.items():
            self._loop.every(period_s, partial(self._ask_all, checks), "health checks")

    def close(self) -> None:
        """Hang up everywhere."""
        for check in self._checks.values():
            if check.dialogue is not None:
                check.dialogue.close()

    def row(self, name: str, now_ns: int) -> Data:  # noqa: ARG002 - of the protocol of views
        """Give what `agentctl workloads` shows of the check of one workload; nothing without one."""
        check = self._checks.get(name)
        if check is None:
            return {}
        told: Data = {"check": check.last, "check_failures": check.failures}
        return told | ({"proven": True} if check.last and check.last["ok"] else {})

    def _ask_all(self, checks: Iterable[_Check]) -> None:
        for check in checks:
            if check.question is None:
                self._read(check)
            elif check.dialogue is None:
                self._ask(check, check.question)

    def _read(self, check: _Check) -> None:
        assert check.probe.file is not None
        try:
            value = counterfile.read(check.probe.file)
        except GatewardenError as error:
            self._unasked(check, str(error))
            return
        self._unasked(check, "")
        self._counted(check, value)

    def _ask(self, check: _Check, asked: Question) -> None:
        addresses = [(address, asked.port) for address in self._resolver.addresses(asked.host)]
        if not addresses:
            self._unasked(check, f"{asked.host} has no address (yet)")
            return
        try:
            check.dialogue = Dialogue(
                self._loop, self._clock, addresses, asked.conversation(), check.probe.timeout_s, partial(self._answered, check)
            )
        except (OSError, ImportError, ValueError) as error:  # h2 is not installed; a host that TLS takes for no name
            self._unasked(check, f"{type(error).__name__} {error}")
        else:
            self._unasked(check, "")
            check.dialogue.hurry()

    def _unasked(self, check: _Check, why: str) -> None:
        """Say once that a check cannot be made; an absent file is a workload that has not counted yet."""
        if why and why != check.unasked:
            self._say(f"health check of {check.name}: {why}")
        check.unasked = why

    def _answered(self, check: _Check, answer: Answer, ms: float) -> None:
        check.dialogue = None
        check.failures = 0 if answer.ok else check.failures + 1
        check.last = {"ok": answer.ok, "ms": ms, "why": answer.why}
        self._shown(Sighting(self._clock.mono_ns(), SOURCE, "workload.check", check.name, "info", dict(check.last)))
        if answer.count is not None:
            self._counted(check, answer.count)

    def _counted(self, check: _Check, value: object) -> None:
        now = self._clock.mono_ns()
        beat = check.work.beat(value, now)
        if beat is not None:
            self._shown(Sighting(now, SOURCE, "workload.beats", check.name, "info", beat))
