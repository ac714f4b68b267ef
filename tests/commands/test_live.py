"""agentctl timers and sched, over snapshots of a stub agentd, and (marked) over this kernel."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.conftest import Box, Replies, status

Serve = Callable[[Replies], None]
EMPTY = {"max": 0, "buckets": {}}


def callback(count: int, late: dict[str, int], peak: int, kind: str = "hrtimer") -> dict[str, Any]:
    """Give the cumulative row of one callback."""
    histogram = {"max": peak, "buckets": late}
    counts = {"starts": count, "past_starts": 0, "expiries": count, "run_total_ns": 1000 * count, "cpus": 3}
    return {"kind": kind, **counts, "late": histogram, "idle_late": EMPTY, "run": histogram, "deviation": EMPTY}


def timers(count: int, lost: int) -> dict[str, Any]:
    """Give a snapshot of the probe timers with two callbacks."""
    rows = {
        "tick_nohz_handler": callback(count, {"20": count - 1, "56": 1}, 3_000_000),
        "tcp_write_timer": callback(7, {"0": 7}, 90, "timer"),
    }
    return {"timers": rows, "total": {"expiries": count + 7, "late": EMPTY, "run": EMPTY}, "lost": lost, "t_mono_ns": 1}


def process(waits: int, comm: str, cgroup: int) -> dict[str, Any]:
    """Give the cumulative row of one process."""
    wait = {"max": 1_000_000, "buckets": {"30": waits}}
    return {"comm": comm, "cgroup": cgroup, "involuntary": waits // 2, "migrations": 1, "wait": wait}


def run_queue(waits: int, lost: int = 0) -> dict[str, Any]:
    """Give a snapshot of the probe run_queue with two processes."""
    processes = {"17": process(waits, "ffmpeg", 42), "18": process(2 * waits, "python3", 43)}
    total = {"involuntary": waits, "migrations": 2, "wait": {"max": 1_000_000, "buckets": {"30": 3 * waits}}}
    return {"processes": processes, "total": total, "blocked": [{"pid": 99, "blocked_us": 2.5e6}], "lost": lost}


def softirq(count: int) -> dict[str, Any]:
    """Give a snapshot of the probe softirq with one vector on two CPUs."""
    rows = {
        str(cpu): {
            "count": count,
            "raised": count,
            "latency": {"max": 100 * count * (cpu + 1), "buckets": {"10": count}},
            "run": {"max": 500, "buckets": {"8": count}},
        }
        for cpu in (0, 1)
    }
    return {"TIMER": rows, "lost": 1}


def serve_all(serve: Serve) -> None:
    """Serve two snapshots of each of the three probes."""
    serve(
        {
            "status": [{"result": status()}],
            "snapshot timers": [{"result": timers(100, 2)}, {"result": timers(600, 5)}],
            "snapshot run_queue": [{"result": run_queue(10)}, {"result": run_queue(110, 4)}],
            "snapshot softirq": [{"result": softirq(5)}, {"result": softirq(25)}],
        }
    )


def test_timers_json_has_the_shape_of_the_contract(box: Box, serve: Serve) -> None:
    """Pins `timers --json`: what happened between two snapshots, callbacks that did nothing left out, lost events counted."""
    serve_all(serve)
    found = box.agentctl("timers", "--seconds", "0.2", "--json").json
    assert (found["schema"], found["source"], found["lost"]) == ("gatewarden.timers/1", "agentd", 3)
    assert 0.2 <= found["seconds"] < 5
    (row,) = found["timers"]
    assert (row["function"], row["kind"], row["count"]) == ("tick_nohz_handler", "hrtimer", 500)
    assert set(row["late_us"]) >= {"p50", "p99", "max"}
    assert set(row["run_us"]) >= {"p50", "p99", "max"}


def test_timers_view_draws_a_histogram_and_a_table(box: Box, serve: Serve) -> None:
    """Pins the human view: the same figures, an octave for each line, bars within the width."""
    serve_all(serve)
    out = box.agentctl("timers", "--seconds", "0.2", COLUMNS="70").out
    assert out.startswith("500 expiries of 1 callbacks in 0.")
    assert "3 events lost" in out
    assert "hrtimer lateness   500 samples" in out
    assert "█" in out
    assert "tick_nohz_handler" in out
    bars = [line for line in out.splitlines() if " .. " in line]
    assert bars
    assert max(map(len, bars)) <= 70


def test_function_chooses(box: Box, serve: Serve) -> None:
    """Pins `--function`: a glob, in both forms."""
    serve_all(serve)
    assert box.agentctl("timers", "--seconds", "0.1", "--json", "--function", "tcp_*").json["timers"] == []
    assert "tick_nohz" not in box.agentctl("timers", "--seconds", "0.1", "--function", "tcp_*").out


def test_sched_json_joins_both_probes(box: Box, serve: Serve) -> None:
    """Pins `sched --json`: run queue and softirqs in one object, lost events of both."""
    serve_all(serve)
    found = box.agentctl("sched", "--seconds", "0.1", "--json").json
    assert (found["schema"], found["lost"]) == ("gatewarden.sched/1", 4)
    assert set(found["run_queue_us"]) >= {"count", "p50", "p99", "max"}
    assert found["run_queue_us"]["count"] == 300
    assert [(row["pid"], row["comm"], row["voluntary"], row["involuntary"]) for row in found["processes"]] == [
        (18, "python3", 100, 100),
        (17, "ffmpeg", 50, 50),
    ]
    assert all({"run_queue_us", "migrations"} <= set(row) for row in found["processes"])
    assert [(row["vector"], row["cpu"]) for row in found["softirq"]] == [("TIMER", 0), ("TIMER", 1)]
    assert all({"latency_us", "run_us"} <= set(row) for row in found["softirq"])


@pytest.mark.parametrize("option", [("--pid", "17"), ("--comm", "ff*"), ("--cgroup", "42")])
def test_sched_chooses_processes(box: Box, serve: Serve, option: tuple[str, str]) -> None:
    """Pins the selections: rows and the latency are those of the chosen processes."""
    serve_all(serve)
    found = box.agentctl("sched", "--seconds", "0.1", "--json", *option).json
    assert [row["pid"] for row in found["processes"]] == [17]
    assert found["run_queue_us"]["count"] == 100


def test_sched_view(box: Box, serve: Serve) -> None:
    """Pins the human view: histogram, processes, who is blocked, one line for a softirq with the worst CPU."""
    serve_all(serve)
    out = box.agentctl("sched", "--seconds", "0.1").out
    wanted = ("run-queue latency   300 samples", "ffmpeg", "python3", "blocked in the kernel: pid 99 for 2.5 s", "TIMER")
    assert [text for text in wanted if text not in out] == []
    assert out.splitlines()[-1].split()[-1] == "1"


def test_one_probe_that_is_off_does_not_hide_the_other(box: Box, serve: Serve) -> None:
    """Pins that what can be had is shown, and why the rest is missing."""
    serve(
        {
            "status": [{"result": status()}],
            "snapshot run_queue": [{"result": run_queue(1)}, {"result": run_queue(11)}],
            "snapshot softirq": [{"error": "probe softirq is off: no BTF", "code": 4}],
        }
    )
    ran = box.agentctl("sched", "--seconds", "0.1", "--json")
    assert (ran.code, ran.json["softirq"], ran.json["unavailable"]) == (0, [], {"softirq": "probe softirq is off: no BTF"})


def test_a_probe_that_is_off_says_why(box: Box, serve: Serve) -> None:
    """Pins exit 4 with the reason that agentd gives."""
    serve({"status": [{"result": status()}], "snapshot timers": [{"error": "probe timers is off: no BTF", "code": 4}]})
    ran = box.agentctl("timers", "--seconds", "0.1")
    assert (ran.code, ran.out, ran.err) == (4, "", "agentctl: probe timers is off: no BTF\n")


@pytest.mark.parametrize(
    "garbage", [5, [], {"timers": 7}, {"timers": {"x": {"late": {"buckets": {"7": "y"}}}}}, {"TIMER": {"no": {}}}]
)
@pytest.mark.parametrize("verb", ["timers", "sched"])
def test_garbage_in_snapshots_is_survived(box: Box, serve: Serve, verb: str, garbage: Any) -> None:
    """Pins that snapshots of a wrong form are read as far as they go, or refused in one line."""
    names = ("timers", "run_queue", "softirq")
    serve({"status": [{"result": status()}]} | {f"snapshot {name}": [{"result": garbage}] for name in names})
    ran = box.agentctl(verb, "--seconds", "0.1")
    assert ran.code in {0, 2}
    assert "Traceback" not in ran.err


@pytest.mark.root
def test_without_agentd_and_without_root_it_says_what_to_do(box: Box) -> None:
    """Pins exit 4 for an ordinary user, with both ways out."""
    box.path.chmod(0o755)
    done = subprocess.run(
        [
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            sys.executable,
            "-P",
            "-m",
            "agent.cli",
            "timers",
        ],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 4
    assert b"or measure without it: sudo " in done.stderr
    assert done.stderr.count(b"\n") == 1


@pytest.mark.kernel
def test_root_measures_this_kernel_without_agentd(box: Box) -> None:
    """Pins the way by `agent.loader`: this kernel's own timers, live."""
    found = box.agentctl("timers", "--seconds", "1", "--json").json
    assert found["source"] == "own"
    assert len(found["timers"]) >= 2
    assert sum(row["count"] for row in found["timers"]) > 20


def test_ctrl_c_is_quiet(box: Box, serve: Serve) -> None:
    """Pins that an interrupted measurement ends with 130 and without a word."""
    serve_all(serve)
    command = [sys.executable, "-P", "-m", "agent.cli", "--config", str(box.config), "timers", "--seconds", "30"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        try:
            with pytest.raises(subprocess.TimeoutExpired):
                running.wait(1.0)
            running.send_signal(signal.SIGINT)
            assert running.wait(10) == 130
        finally:
            running.kill()
        assert running.stdout is not None
        assert running.stderr is not None
        assert (running.stdout.read(), running.stderr.read()) == (b"", b"")
