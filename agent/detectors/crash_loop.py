"""crash_loop: workloads that end again and again, however healthy each of their lives looks meanwhile.

    ok ── 4 ends within 2 min, 4 lives in a row below 5 min, or given up by its parent ──► critical ── a stable life ──► ok

Each end counts once, by its process (the keeper tells an end anew after agentd was away). Ends that we or an operator ordered
do not count: they are told as states, and what was `stopping` when it ended has no part in this. Kept over restarts and boots.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

from annotated_types import Ge, Le

from agent import narrow
from agent.detectors._cases import EVIDENCE, SUBJECTS, number, word
from agent.errors import StoreError
from agent.looping import Life, Lives, Rule, restored
from agent.model import Data, Event, Finding, Json

NAME = "crash_loop"
KINDS = frozenset({"workload.state", "workload.exit"})
NS = 1_000_000_000
COUNT, WITHIN_S, IN_A_ROW = 4, 120.0, 4
START_S = 60.0  # until whatever is done about it has led to a new process


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.crash_loop]`."""

    stable_s: Annotated[float, Ge(10), Le(86400)] = 300.0
    """A workload that runs for so many seconds is in no loop (any more)."""


@dataclass(slots=True)
class _Workload:
    lives: Lives
    pid: int | None = None
    began_ns: int | None = None
    stopping: bool = False
    open: str = ""
    """The cause of the finding that is open."""
    evidence: list[int] = field(default_factory=list)


class CrashLoop:
    """`ports.Detector`, `ports.Timed` and `ports.Remembers`."""

    name = NAME

    def __init__(self, options: Options) -> None:
        """Start without an opinion."""
        self._rule = Rule(COUNT, WITHIN_S, IN_A_ROW, options.stable_s)
        self._all: dict[str, _Workload] = {}

    def see(self, event: Event) -> Iterable[Finding]:
        """Take a state or an end in."""
        if event.kind not in KINDS:
            return ()
        one = self._known(event.subject)
        if one is None:
            return ()
        return self._exit(event, one) if event.kind == "workload.exit" else self._state(event, one)

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """Forget the loops of those that run for long enough."""
        return [finding for name, one in self._all.items() for finding in self._stable(name, one, now_ns)]

    def next_due_ns(self) -> int | None:
        """Give when the next workload will have run for long enough."""
        stable_ns = round(self._rule.stable_s * NS)
        running = [one.began_ns + stable_ns for one in self._all.values() if one.open and one.began_ns is not None]
        return min(running, default=None)

    def plain(self, now_ns: int) -> Data:  # noqa: ARG002 - lives are dated by what they lasted
        """Give the rings, as JSON."""
        return {"schema": 1, "workloads": {name: one.lives.plain() for name, one in self._all.items() if one.lives.ring}}

    def restore(self, data: Json, now_ns: int) -> None:  # noqa: ARG002
        """Take back what `plain` gave. Raises StoreError if it is not of that form."""
        rows = data.get("workloads") if isinstance(data, dict) and data.get("schema") == 1 else None
        if not isinstance(rows, dict) or len(rows) > SUBJECTS:
            raise StoreError("crash loops are not of schema 1")
        lives = {name: restored(row) for name, row in rows.items()}
        self._all = {name: _Workload(Lives(self._rule, ring)) for name, ring in lives.items()}

    def _known(self, name: str) -> _Workload | None:
        if name not in self._all and len(self._all) < SUBJECTS:
            self._all[name] = _Workload(Lives(self._rule))
        return self._all.get(name)

    def _state(self, event: Event, one: _Workload) -> list[Finding]:
        state, pid = word(event.data, "state", ""), narrow.count(event.data.get("pid")) or None
        if pid is not None and pid != one.pid:
            one.pid, one.began_ns = pid, event.t_mono_ns
        one.stopping = state in ("stopping", "stopped", "held")
        if state == "failed":
            return self._raise(event, one, "gave_up", f"given up by its parent: {word(event.data, 'reason', 'no reason told')}")
        ended = bool(one.open) and state in ("stopped", "held")
        return [self._over(event.subject, one, event.t_mono_ns, f"it is {state}")] if ended else []

    def _exit(self, event: Event, one: _Workload) -> list[Finding]:
        pid, now = narrow.count(event.data.get("pid")), event.t_mono_ns
        lasted_s = max(0.0, (now - (one.began_ns if pid == one.pid and one.began_ns is not None else now)) / NS)
        fresh = narrow.count(event.data.get("replaced_pid")) or None
        if not one.stopping:
            one.lives.ended(Life(f"{event.boot_id[:8]}/{pid}", round(lasted_s, 3), _how(event.data)))
            if event.seq:
                one.evidence = [*one.evidence, event.seq][-EVIDENCE:]
        if pid == one.pid or fresh:
            one.pid, one.began_ns = fresh, now if fresh else None
        why = one.lives.loop()
        return self._raise(event, one, "crash_loop", f"{why}; the last {_how(event.data)}") if why else []

    def _raise(self, event: Event, one: _Workload, cause: str, why: str) -> list[Finding]:
        if one.open in (cause, "gave_up"):
            return []
        ended = [self._over(event.subject, one, event.t_mono_ns, "it is not started again")] if one.open else []
        one.open = cause
        data: Data = {"cause": cause, "ends": len(one.lives.ring), "settle_s": self._rule.stable_s + START_S}
        finding = Finding(
            event.t_mono_ns, NAME, event.subject, "critical", f"{event.subject}: {why}", tuple(one.evidence), data
        )
        return [*ended, finding]

    def _stable(self, name: str, one: _Workload, now_ns: int) -> list[Finding]:
        if one.began_ns is None or now_ns - one.began_ns < self._rule.stable_s * NS:
            return []
        one.lives.stable()
        return [self._over(name, one, now_ns, f"runs for {self._rule.stable_s:g} s")] if one.open else []

    def _over(self, name: str, one: _Workload, now_ns: int, why: str) -> Finding:
        evidence, one.open, one.evidence = tuple(one.evidence), "", []
        one.lives.stable()
        return Finding(now_ns, NAME, name, "ok", why, evidence)


def _how(data: Data) -> str:
    if signal := number(data, "signal"):
        return f"was killed by signal {signal:.0f}"
    return f"ended with code {number(data, 'code'):.0f}"


def make(options: Options) -> CrashLoop:
    """Make the detector."""
    return CrashLoop(options)
