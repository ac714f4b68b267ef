"""Deadlines: false kills beside the time in which a hang is found, replayed for several rules, and live at 4x CPU overload."""

from __future__ import annotations

import os
import select
import signal
import statistics
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from agent.detectors.deadline import Deadline
from agent.histogram import upper_edge
from agent.model import Data, Event, Finding, Json
from tests.bench import waiting
from tests.bench.plan import Plan, say
from tests.bench.table import Row
from tests.fixtures.intervals import record

TITLE = "deadlines: false kills and the time to find a hang"
NEEDS: Sequence[str] = ()
ROWS = (
    *("deadlines.false_kills", "deadlines.found", "deadlines.fixed_3x", "deadlines.phi"),
    *("deadlines.overload", "deadlines.margin", "deadlines.hang"),
)
OVERLOAD = 4
ROLES = ("camera", "frames", "decoder", "slow", "disk")
NS = 1_000_000_000


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(660, 90)


def measure(plan: Plan) -> Iterator[Row]:
    """Replay all scenes; then run real workloads beside four hogs for each CPU, and stop one at the end."""
    scores = waiting.table()
    say("\n".join(waiting.lines(scores)))
    kills = {name: sum(score.kills for score in row.values()) for name, row in scores.items()}
    found = {name: statistics.fmean(score.found_s for score in row.values()) for name, row in scores.items()}
    ours, fixed, phi = waiting.OURS, waiting.RULES[0][0], waiting.RULES[1][0]
    note = f"{len(next(iter(scores.values())))} scenes; ours is: {ours}"
    yield Row("deadlines.false_kills", "replayed, with injected stalls", "", kills[ours], 0, 0, note=note)
    yield Row(
        "deadlines.found", "a hang after so long, mean", "s", found[ours], note="of the same scenes, after their last beat"
    )
    yield Row(
        "deadlines.fixed_3x", "false kills of 3x the median", "", kills[fixed], note=f"hang found in {found[fixed]:.1f} s"
    )
    yield Row("deadlines.phi", "false kills of phi-accrual 8", "", kills[phi], note=f"hang found in {found[phi]:.1f} s")
    yield from _live(plan.of(600, 60))


@dataclass
class _Work:
    """One real process, and when it beat."""

    role: str
    process: subprocess.Popen[bytes]
    last_ns: int = 0
    waiting_ms: list[Json] = field(default_factory=list)

    def beat(self, now_ns: int) -> None:
        """Read what it wrote: a byte for each beat."""
        assert self.process.stdout is not None
        for _ in os.read(self.process.stdout.fileno(), 64):
            if self.last_ns:
                self.waiting_ms.append(round((now_ns - self.last_ns) / 1e6, 3))
            self.last_ns = now_ns


class _Watch:
    """The detector over real workloads, fed as agentd does: beats once a second, counters at ticks and alarms."""

    def __init__(self, works: Sequence[_Work]) -> None:
        self.detector, self.works, self.found = Deadline(), works, list[Finding]()
        for one in works:
            self._see("workload.known", one.role, {"deadline_s": 10.0, "ceiling_s": None, "liveness": "watchdog"})
            self._see("workload.state", one.role, {"state": "running", "pid": one.process.pid})

    def run(self, seconds: float) -> None:
        """Watch for so long."""
        end = time.monotonic() + seconds
        told = tick = time.monotonic()
        while (now := time.monotonic()) < end:
            due = self.detector.next_due_ns()
            until = min(end, told + 1, tick + 10, due / NS if due is not None else end)
            streams = {one.process.stdout: one for one in self.works if one.process.stdout is not None}
            for stream in select.select(list(streams), [], [], max(0.0, until - now))[0]:
                streams[stream].beat(time.monotonic_ns())
            now = time.monotonic()
            if now >= told + 1:
                self._tell()
                told = now
            if now >= tick + 10 or (due is not None and now * NS >= due):
                self._look()
                tick = now if now >= tick + 10 else tick

    def _tell(self) -> None:
        for one in self.works:
            if one.waiting_ms:
                beats: Data = {"last_ns": one.last_ns, "intervals_ms": one.waiting_ms, "watchdog_us": 10_000_000}
                self._see("workload.beats", one.role, {**beats, "extend_until_ns": None, "phase": "run"})
                one.waiting_ms = []

    def _look(self) -> None:
        some, memory, io = (record.pressure(*key) for key in (("cpu", "some"), ("memory", "full"), ("io", "full")))
        self._see(
            "machine.pressure", "psi", {"cpu_some_us_total": some, "memory_full_us_total": memory, "io_full_us_total": io}
        )
        for one in self.works:
            wait, run = record.scheduled(one.process.pid)
            self._see("workload.starved", one.role, {"wait_us_total": wait, "run_us_total": run})
        self.found += self.detector.tick(time.monotonic_ns())

    def _see(self, kind: str, subject: str, data: Data) -> None:
        self.found += self.detector.see(Event("bench", 0, time.monotonic_ns(), 0.0, "keeper_link", kind, subject, "info", data))


def _live(seconds: int) -> Iterator[Row]:
    """Run every role beside four hogs for each CPU; then stop the camera (SIGSTOP) and see how long that takes to be found."""
    hogs = OVERLOAD * (os.cpu_count() or 1)
    with ExitStack() as stack:

        def spawn(role: str) -> subprocess.Popen[bytes]:
            process = record.spawn(role, cpu=None)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        works = [_Work(role, spawn(role)) for role in ROLES]
        for _ in range(hogs):
            spawn("hog")
        watch = _Watch(works)
        watch.run(seconds)
        kills = [finding for finding in watch.found if finding.state == "critical"]
        note = f"{len(works)} workloads, {hogs} hogs on {os.cpu_count()} CPUs for {seconds} s; " + (
            "; ".join(finding.summary for finding in kills) or "none missed"
        )
        yield Row("deadlines.overload", f"false kills at {OVERLOAD}x CPU overload", "", len(kills), 0, 0, note=note)
        say("\n".join(_histogram(watch.detector)))
        worst = [float(str(watch.detector.row(one.role, time.monotonic_ns())["margin_p1_s"])) for one in works]
        yield Row(
            "deadlines.margin", "left of the deadline at 99 % of beats", "s", min(worst), note="worst workload, same load"
        )
        works[0].process.send_signal(signal.SIGSTOP)
        begun, before = time.monotonic(), len(watch.found)
        while time.monotonic() < begun + 60 and not _missed(watch.found[before:]):
            watch.run(1)
        found = _missed(watch.found[before:])
        yield Row("deadlines.hang", "a stopped process found, same load", "s", found, note="SIGSTOP to finding")


def _histogram(detector: Deadline) -> Iterator[str]:
    """Draw what was left of the deadlines at all beats."""
    counts = sum((detector.margins(role) for role in ROLES), Counter[int]())
    yield "    left of the deadline, beats"
    for index in sorted(counts):
        bar = "#" * max(1, round(50 * counts[index] / max(counts.values())))
        yield f"    {(upper_edge(index - 1) + 1) / NS if index else 0:6.2f} s  {counts[index]:6}  {bar}"


def _missed(found: Sequence[Finding]) -> float | None:
    silent = [finding.data["silent_s"] for finding in found if finding.state == "critical" and finding.subject == ROLES[0]]
    return float(str(silent[0])) if silent else None
