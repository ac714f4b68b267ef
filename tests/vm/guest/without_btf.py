"""Kernels without BTF: with /sys/kernel/btf hidden the agent takes BCC (tier D), or a file in its place (tier C)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.agents import NOBODY, Agent, agent, named, open_to_all, sleeper
from tests.vm.guest.planted import AGENTCTL, FAULTS, SLACK_S, loaded
from tests.vm.guest.rows import Row, Setting

BTF = Path("/sys/kernel/btf")
# What BCC takes too, and an event of each.
EVENTS = {"timers": "timer.late", "run_queue": "sched.latency", "process_exit": "proc.exit"}
PORTABLE = tuple(EVENTS)
ALL = (*PORTABLE, "irq", "softirq")
COMPILE_S = 900  # for three probes 2 minutes on an emulated CPU, if the host has nothing else to do
# Budgets that an emulated CPU breaks by itself, so that there are events.
AGENT = """[gateway]
site = "lab"
name = "guest"
[paths]
state_dir = "{folder}/state"
runtime_dir = "{folder}/run"
bpffs_dir = "{folder}/bpf"
[bpf]
{bpf}
[probes]
enabled = {probes}
[probes.timers]
hrtimer_late_us = 100
[probes.run_queue]
latency_us = 100
[probes.process_exit]
comm = ["sleep"]
"""
TESTS = [f"tests/kernel/test_{name}.py" for name in PORTABLE]
# An emulated CPU compiles for 40 s, in each test anew: those that go through most of each source.
CHOSEN = [
    f"tests/kernel/test_{test}"
    for test in (
        "process_exit.py::test_a_leader_that_left_first_gives_its_code",
        "run_queue.py::test_blocked_tasks_are_told_while_they_are_and_when_they_wake",
        "timers.py::test_late_timers_of_a_slow_interrupt_are_named_with_their_stack",
        "process_exit.py::test_a_core_dump_is_told_whoever_it_is",
        "process_exit.py::test_a_process_with_many_threads_dies_once",
        "run_queue.py::test_waits_are_summed_by_cgroup",
        "run_queue.py::test_a_new_name_is_seen_after_exec",
        "timers.py::test_arming_in_the_past_is_counted_and_a_storm_is_told",
        "timers.py::test_a_deferrable_timer_has_no_lateness",
    )
]


@contextlib.contextmanager
def hidden(place: Path = BTF) -> Iterator[None]:
    """Hide a folder behind an empty one."""
    subprocess.run(["mount", "-t", "tmpfs", "hidden", str(place)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)


@contextlib.contextmanager
def headers_alone() -> Iterator[None]:
    """Leave of the kernel's build folder all but its vmlinux: newer packages ship it, and its BTF would make this tier C."""
    modules = Path("/lib/modules") / os.uname().release
    build, source = (modules / "build").resolve(), (modules / "source").resolve()
    with hidden(modules.parent):
        (modules / "build").mkdir(parents=True)
        (modules / "source").symlink_to(source)
        for path in build.iterdir():
            if path.name != "vmlinux":
                (modules / "build" / path.name).symlink_to(path)
        yield


def bcc(setting: Setting) -> Iterator[Row]:
    """Tier D: BCC compiles the probes, an agentd without a capability reads their pins, the live tests pass on them."""
    own = PORTABLE[-1:] if setting.quick else PORTABLE  # each is compiled for a minute
    with headers_alone():
        with hidden(), placed((*own, "irq", "softirq")) as path:
            yield from pinned(path, "D", {"irq", "softirq"})
            yield from read(path, "D", own)
        if not setting.quick:
            yield from live("bcc", CHOSEN)
    with hidden(), hidden(Path("/lib/modules")), placed(PORTABLE) as path:
        said = ctl(path, "probes", "load").stderr
        wanted = f"apt install linux-headers-{os.uname().release}"
        yield Row("without headers", wanted, said.strip(), wanted in said)


def external_btf(setting: Setting) -> Iterator[Row]:
    """Tier C: the same with a copy of the kernel's BTF as [bpf] btf_path, for all probes; a planted race is still found."""
    copy = Path(tempfile.mkdtemp()) / "vmlinux.btf"
    shutil.copy(BTF / "vmlinux", copy)
    with hidden(), placed(ALL, f'btf_path = "{copy}"') as path:
        yield from pinned(path, "C", set())
        yield from read(path, "C", PORTABLE)
        yield from scanned(setting, path)
    yield from live(str(copy), TESTS[2:] if setting.quick else TESTS)


@contextlib.contextmanager
def placed(probes: tuple[str, ...], bpf: str = "") -> Iterator[Path]:
    """Give a configuration with folders of its own; what it pinned is gone afterwards."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in ("state", "run", "bpf"):
            (folder / part).mkdir()
        path = folder / "agent.toml"
        path.write_text(AGENT.format(folder=folder, bpf=bpf, probes=json.dumps(probes)))
        open_to_all(folder, folder / "state", folder / "run")
        try:
            yield path
        finally:
            ctl(path, "probes", "unload")


def ctl(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run agentctl with this configuration."""
    command = [str(AGENTCTL), "--config", str(path), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_S, check=False)


def pinned(path: Path, tier: str, without: set[str]) -> Iterator[Row]:
    """Pin all probes; those `without` an implementation in this tier say so, and what to do."""
    began = time.monotonic()
    done = ctl(path, "probes", "load", "--json")
    rows: dict[str, Any] = {row["name"]: row for row in json.loads(done.stdout)["probes"]} if done.stdout else {}
    failed = {name for name, row in rows.items() if row["state"] != "loaded"}
    said = "; ".join(f"{name}: {rows[name]['reason']}" for name in sorted(failed)) or done.stderr
    passed = bool(rows) and failed == without and all(rows[name]["remedy"] for name in failed)
    yield Row(
        f"tier {tier}: loaded",
        f"all but {sorted(without)}",
        f"in {time.monotonic() - began:.0f} s; not {said or 'one'}",
        passed,
    )


def read(path: Path, tier: str, probes: tuple[str, ...]) -> Iterator[Row]:
    """Have an agentd without any capability read what is pinned: tier, aggregates, and an event of each of the probes."""
    with agent(path, *NOBODY) as found:
        status = found.status()
        yield Row("agentd's tier", tier, f"{status['tier']}: {status['tier_reason']}", status["tier"] == tier)
        states = {row["name"]: f"{row['state']} {row['origin']}" for row in status["probes"] if row["name"] in probes}
        yield Row("probes", "ok pinned", str(states), set(states.values()) == {"ok pinned"})
        if "timers" in probes:
            measured = found.ctl("timers", "--seconds", "2")[1]["timers"]
            names = [str(row["function"]) for row in measured if row["count"]]
            yield Row("timers", "callbacks by name", " ".join(names[:4]), "hrtimer_wakeup" in names)
        victim = sleeper()
        victim.send_signal(signal.SIGSEGV)
        victim.wait()
        for kind in (EVENTS[name] for name in probes):
            event = awaited(
                found, kind, lambda event: event["kind"] != "proc.exit" or bool(named([event], "proc.exit", victim.pid))
            )
            yield Row(kind, "an event", json.dumps(event["data"])[:90] if event else "none", bool(event))


def awaited(found: Agent, kind: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any] | None:
    """Give the first event of `kind` that is as wanted, None if none comes."""
    deadline = time.monotonic() + SLACK_S / 2
    while time.monotonic() < deadline:
        for event in found.ctl("events", "--kind", kind, "--limit", "1000")[1]["events"]:
            if wanted(event):
                return dict(event)
        time.sleep(0.5)
    return None


def live(back_end: str, tests: list[str]) -> Iterator[Row]:
    """Run the live tests on probes that this back end loaded."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "--tb=short",
        "-p",
        "no:cacheprovider",
        "-m",
        "kernel",
        "-o",
        f"timeout={COMPILE_S}",
    ]
    environment = {**os.environ, "GATEWARDEN_BACKEND": back_end}
    done = subprocess.run([*command, *tests], capture_output=True, text=True, env=environment, check=False)
    print(done.stdout[-12000:] if done.returncode else "", flush=True)
    lines = [line for line in done.stdout.splitlines() if " passed" in line or " failed" in line]
    yield Row(f"live tests, {back_end}", "all pass", lines[-1] if lines else done.stderr[-300:], done.returncode == 0)


def scanned(setting: Setting, path: Path) -> Iterator[Row]:
    """Find the first planted race by raw tracepoints and a file's offsets."""
    fault = FAULTS[0]
    with loaded(setting.module(fault.name)):
        done = ctl(path, "race", "scan", "--seconds", str(fault.seconds), "--json")
    report: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"findings": [], "tier": done.stderr}
    found = {(str(row["callback"]).split(" ")[0], row["class"]) for row in report["findings"]}
    said = f"tier {report['tier']}: {sorted(found)}"
    yield Row(fault.name, f"{fault.fault} {fault.callback}", said, (fault.callback, fault.fault) in found)
