"""Recorded interval traces (tests/fixtures/intervals), and their replay through `deadline` as agentd would feed it."""

from __future__ import annotations

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from pathlib import Path

from agent.detectors.deadline import Deadline
from agent.model import Data, Event, Finding, Json

FOLDER = Path(__file__).parent.parent / "fixtures/intervals"
NS = 1_000_000_000
NAME = "camera"
TICK_S, KEEPER_S = 10.0, 1.0
Totals = tuple[float, ...]
"""cpu_some, memory_full, io_full, wait, run in microseconds."""


@dataclass(frozen=True, slots=True)
class Trace:
    """`beats` in seconds, `times` and `totals` of the samples; all begin at 0."""

    beats: tuple[float, ...]
    times: tuple[float, ...]
    totals: tuple[Totals, ...]

    @property
    def seconds(self) -> float:
        """Its length."""
        return self.times[-1]

    def at(self, second: float) -> Totals:
        """Give the counters at a time, as if they had been read then."""
        index = bisect_right(self.times, second)
        if index == 0 or index == len(self.times):
            return self.totals[min(index, len(self.times) - 1)]
        begun, ended = self.times[index - 1], self.times[index]
        share = (second - begun) / (ended - begun)
        return tuple(a + (b - a) * share for a, b in zip(self.totals[index - 1], self.totals[index], strict=True))

    def intervals(self) -> list[float]:
        """Give the seconds between its beats."""
        return [later - sooner for sooner, later in pairwise((0.0, *self.beats))]


def load(name: str) -> Trace:
    """Read a recorded trace."""
    found = json.loads((FOLDER / f"{name}.json").read_text())
    rows = found["samples"]
    first = rows[0][1:]
    totals = tuple(tuple(float(now - then) for now, then in zip(row[1:], first, strict=True)) for row in rows)
    return Trace(tuple(ms / 1000 for ms in found["beats_ms"]), tuple(row[0] / 1000 for row in rows), totals)


def starts() -> list[float]:
    """Give how long the recorded programs took to start, in seconds."""
    return [ms / 1000 for ms in json.loads((FOLDER / "starts.json").read_text())["took_ms"]]


def joined(parts: Iterable[Trace]) -> Trace:
    """Put traces one behind the other."""
    beats, times, begun = list[float](), [0.0], 0.0
    totals, base = list[Totals]([(0.0,) * 5]), tuple[float, ...]([0.0] * 5)
    for part in parts:
        beats += [begun + beat for beat in part.beats]
        times += [begun + time for time in part.times[1:]]
        totals += [tuple(map(sum, zip(base, row, strict=True))) for row in part.totals[1:]]
        begun, base = times[-1], totals[-1]
    return Trace(tuple(beats), tuple(times), tuple(totals))


def steady(seconds: float, period_s: float) -> Trace:
    """Make a trace of regular beats on an idle machine."""
    beats = tuple(accumulate([period_s] * round(seconds / period_s)))
    return Trace(beats, (0.0, seconds), ((0.0,) * 5, (0.0, 0.0, 0.0, 0.0, seconds * 1e5)))


def pause(seconds: float, **stalled: float) -> Trace:
    """Make a trace with one beat, at its end; `stalled`: shares of the time (cpu_some, memory_full, io_full, wait, run)."""
    keys = ("cpu_some", "memory_full", "io_full", "wait", "run")
    return Trace((seconds,), (0.0, seconds), ((0.0,) * 5, tuple(stalled.get(key, 0.0) * seconds * 1e6 for key in keys)))


@dataclass
class Replay:
    """Plays traces one after the other; `found` are all findings. A hang is silence while the rest of the machine goes on."""

    detector: Deadline = field(default_factory=Deadline)
    deadline_s: float = 10.0
    ceiling_s: float | None = None
    starvation: bool = True
    """Whether the counters are shown at all."""
    own: bool = True
    """Whether the workload's own run-queue wait is."""
    now: float = 1000.0
    found: list[Finding] = field(default_factory=list)
    pid: int = 100
    _base: Totals = (0.0,) * 5
    _heard: float = 0.0
    _late: list[tuple[float, Data]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Tell the detector of the workload, and that it runs."""
        known: Data = {"deadline_s": self.deadline_s, "ceiling_s": self.ceiling_s, "liveness": "watchdog"}
        self.see("workload.known", known)
        self.state("running")

    def see(self, kind: str, data: Data, subject: str = NAME) -> None:
        """Show an event now."""
        event = Event("boot", 0, round(self.now * NS), 0.0, "keeper_link", kind, subject, "info", data)
        self.found += self.detector.see(event)

    def state(self, state: str) -> None:
        """Tell a state of the keeper's."""
        pid: Json = self.pid if state in ("starting", "running", "reloading", "stopping") else None
        self.see("workload.state", {"state": state, "pid": pid, "reason": "", "restarts": 0, "ready": True, "status": ""})
        self._heard = self.now

    @property
    def misses(self) -> list[Finding]:
        """The findings of missed deadlines."""
        return [finding for finding in self.found if finding.state == "critical"]

    def row(self) -> Data:
        """Give what `agentctl workloads` would show."""
        return self.detector.row(NAME, round(self.now * NS))

    def play(self, trace: Trace, *, hang_at: float | None = None, more: Data | None = None) -> None:
        """Play one: beats as the keeper tells them, a tick every 10 s, and an alarm when the detector wants one."""
        begun, base = self.now, self._base
        end = begun + trace.seconds
        hung = trace.at(hang_at)[3:] if hang_at is not None else None
        self._late += self._told([begun + beat for beat in trace.beats if hang_at is None or beat < hang_at], more or {})
        tick = begun + TICK_S
        while True:
            due = self.detector.next_due_ns()
            alarm = max(due / NS, self.now) if due is not None else end
            at = min(end, tick, alarm, self._late[0][0] if self._late else end)
            self.now = at
            self._base = tuple(map(sum, zip(base, trace.at(at - begun), strict=True)))
            if hung is not None and hang_at is not None and at - begun > hang_at:
                self._base = (*self._base[:3], *(old + then for old, then in zip(base[3:], hung, strict=True)))
            if self._late and at >= self._late[0][0]:
                self.see("workload.beats", self._late.pop(0)[1])
            elif at >= min(tick, alarm):
                self.look()
                tick = at + TICK_S if at >= tick else tick
            if at >= end and (not self._late or self._late[0][0] > end):
                return

    def look(self) -> None:
        """Read the counters and let time pass, as an alarm and a tick do."""
        if self.starvation:
            some, memory, io, wait, run = self._base
            pressure: Data = {"cpu_some_us_total": some, "memory_full_us_total": memory, "io_full_us_total": io}
            self.see("machine.pressure", pressure, "psi")
            if self.own:
                self.see("workload.starved", {"wait_us_total": wait, "run_us_total": run})
        self.found += self.detector.tick(round(self.now * NS))

    def _told(self, beats: Sequence[float], more: Data) -> Iterator[tuple[float, Data]]:
        """Yield the keeper's messages: what came within a second goes together, at its end."""
        waiting, due = list[float](), 0.0
        for beat in beats:
            if waiting and beat >= due:
                yield due, self._message(waiting, more)
                waiting = []
            if not waiting:
                due = beat + KEEPER_S
            waiting.append(beat)
        if waiting:
            yield due, self._message(waiting, more)

    def _message(self, beats: Sequence[float], more: Data) -> Data:
        intervals: list[Json] = [round((later - sooner) * 1000, 3) for sooner, later in pairwise((self._heard, *beats))]
        self._heard = beats[-1]
        silent: Data = {"watchdog_us": round(self.deadline_s * 1e6), "extend_until_ns": None, "phase": "run"}
        return {"last_ns": round(beats[-1] * NS), "intervals_ms": intervals, **silent, **more}
