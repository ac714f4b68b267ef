"""sched: how long tasks wait for a CPU (run-queue latency) and softirqs for their turn, measured live.

Run-queue latency is from a wake-up (or a preemption) until the task runs. --pid, --comm and --cgroup choose among the
processes; the softirqs are always those of the whole machine.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from agent import histogram
from agent.commands import _exit
from agent.commands._arguments import add_seconds, positive
from agent.commands._call import Call
from agent.commands._histogram import draw
from agent.commands._live import Measured, measure
from agent.commands._rows import spread, three
from agent.commands._screen import Screen
from agent.commands._status_view import text
from agent.commands._table import micros, number, table
from agent.errors import BadRequest
from agent.model import Data, Json
from agent.narrow import part, rows

EXAMPLES = """examples:
  agentctl sched --seconds 10
  agentctl sched --seconds 5 --comm 'ffmpeg*'
  agentctl sched --seconds 5 --cgroup /sys/fs/cgroup/system.slice/detector.service
  agentctl sched --seconds 5 --json | jq .run_queue_us
"""
SHOWN = 20
PROCESS_HEADERS = ("COMM", "PID", "WAITS", "WAIT p50", "WAIT p99", "WAIT max", "VOLUNTARY", "INVOLUNTARY", "MIGRATIONS")
PROCESS_SPARE = (8, 6, 3)
SOFTIRQ_HEADERS = ("SOFTIRQ", "RUNS", "LATE p50", "LATE p99", "LATE max", "RUN p50", "RUN p99", "RUN max", "WORST CPU")
SOFTIRQ_SPARE = (5, 2)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add_seconds(parser)
    parser.add_argument(
        "--top", type=positive, metavar="K", help=f"only the K that waited most (people see {SHOWN} if not said)"
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--pid", type=positive_pid, metavar="PID", help="only this process (its thread group)")
    which.add_argument("--comm", metavar="GLOB", help="only processes of this name, as 'ffmpeg*'")
    which.add_argument("--cgroup", metavar="PATH|ID", help="only processes of this cgroup (v2)")


def positive_pid(raw: str) -> int:
    """Read a process id from the command line."""
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 10):
        raise argparse.ArgumentTypeError(f"{raw!r} is no process id")
    return int(raw)


def run(call: Call) -> int:
    """Measure and show."""
    cgroup = cgroup_id(call.option("cgroup")) if call.option("cgroup") else None
    measured = measure(call, ("run_queue", "softirq"))
    result = combine(measured, call.option("pid"), call.option("comm"), cgroup)
    if call.json:
        processes = rows(result, "processes")[: call.option("top")]
        call.screen.json(measured.head("sched") | result | {"processes": list[Json](processes)})
        return _exit.OK
    for name, reason in measured.unavailable.items():
        call.screen.note(f"{name}: {reason}")
    for line in view(call.screen, result, measured.seconds, call.option("top") or SHOWN):
        call.screen.line(line)
    return _exit.OK


def cgroup_id(path: str) -> int:
    """Give the id of a v2 cgroup: the inode of its directory. Raises BadRequest if there is none."""
    if path.isascii() and path.isdigit() and len(path) <= 20:
        return int(path)
    try:
        return Path(path).stat().st_ino
    except (OSError, ValueError) as error:
        raise BadRequest(
            f"--cgroup {path}: {getattr(error, 'strerror', error)}, want a directory below /sys/fs/cgroup"
        ) from error


def combine(measured: Measured, pid: int | None, comm: str | None, cgroup: int | None) -> Data:
    """Give the one result of both probes, its processes and its latency those that were chosen. Pure."""
    waits = measured.reports.get("run_queue", {})
    processes = rows(waits, "processes")
    if (pid, comm, cgroup) != (None, None, None):
        processes = [row for row in processes if _chosen(row, pid, comm, cgroup)]
        sums = histogram.total([spread(row, "run_queue_us", "buckets") for row in processes])
        waits = waits | {"run_queue_us": {"count": sums.count, **sums.summary_us()}, "buckets": sums.plain()["buckets"]}
    empty: Data = {"run_queue_us": {"count": 0, **histogram.EMPTY.summary_us()}, "buckets": {}}
    rest: Data = {
        "processes": list[Json](processes),
        "softirq": measured.reports.get("softirq", {}).get("softirq", []),
        "lost": measured.lost,
    }
    return empty | waits | rest


def _chosen(row: Data, pid: int | None, comm: str | None, cgroup: int | None) -> bool:
    if pid is not None:
        return row.get("pid") == pid
    if comm is not None:
        return fnmatchcase(str(row.get("comm")), comm)
    return row.get("cgroup") == cgroup


def view(screen: Screen, result: Data, seconds: float, top: int) -> Iterator[str]:
    """Draw the run-queue latency, then who waited, who is blocked, and the softirqs."""
    yield screen.paint(f"measured for {seconds:g} s, {number(result['lost'])} events lost", "bold")
    yield ""
    yield from draw(screen, "run-queue latency", spread(result, "run_queue_us", "buckets"))
    processes, softirqs = rows(result, "processes"), rows(result, "softirq")
    if processes:
        yield ""
        yield from table(screen, PROCESS_HEADERS, [_process(row) for row in processes[:top]], PROCESS_SPARE)
    if len(processes) > top:
        yield screen.paint(f"{len(processes) - top} more: --top {len(processes)}, or --comm GLOB", "dim")
    yield from _blocked(screen, rows(result, "blocked"))
    if softirqs:
        yield ""
        by_vector: dict[str, list[Data]] = {text(row.get("vector")): [] for row in softirqs}
        for row in softirqs:
            by_vector[text(row.get("vector"))].append(row)
        yield from table(screen, SOFTIRQ_HEADERS, [_softirq(vector, cpus) for vector, cpus in by_vector.items()], SOFTIRQ_SPARE)


def _process(row: Data) -> tuple[str, ...]:
    waits = part(row, "run_queue_us").get("count")
    return (
        text(row.get("comm")),
        text(row.get("pid")),
        number(waits),
        *three(row, "run_queue_us"),
        number(row.get("voluntary")),
        number(row.get("involuntary")),
        number(row.get("migrations")),
    )


def _blocked(screen: Screen, listed: list[Data]) -> Iterator[str]:
    for row in listed:
        yield screen.paint(f"blocked in the kernel: pid {text(row.get('pid'))} for {micros(row.get('blocked_us'))}", "degraded")


def _softirq(vector: str, cpus: list[Data]) -> tuple[str, ...]:
    """Give one line for a vector: all CPUs together, and the one with the longest latency (each is in the JSON)."""
    late = {text(row.get("cpu")): spread(row, "latency_us", "latency_buckets") for row in cpus}
    latency, run = histogram.total([*late.values()]), histogram.total([spread(row, "run_us", "run_buckets") for row in cpus])
    sums: Data = {"latency_us": latency.summary_us(), "run_us": run.summary_us()}
    worst = max(late, key=lambda cpu: late[cpu].max_ns)
    return (vector, number(run.count), *three(sums, "latency_us"), *three(sums, "run_us"), worst)
