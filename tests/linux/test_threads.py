"""Where the threads of a process stand: of real processes, and of what /proc may say."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.linux import threads
from agent.narrow import rows
from tests.agents import sleeper
from tests.brokers import wait_for

TREE = (
    "import subprocess, threading, time; threading.Thread(target=time.sleep, args=(300,)).start();"
    "subprocess.run(['sleep', '300'])"
)


def test_a_process_its_threads_and_its_children() -> None:
    """Pins the evidence of a hang: every thread of every descendant, with its state and what it waits for."""
    with subprocess.Popen([sys.executable, "-c", TREE]) as process:
        wait_for(lambda: len(threads.family(process.pid)) == 2, "the child")
        wait_for(lambda: len(list(Path(f"/proc/{process.pid}/task").iterdir())) == 2, "the second thread")
        found = threads.read(process.pid)
        for pid in threads.family(process.pid)[::-1]:
            os.kill(pid, 9)
    parent, child = rows({"all": found}, "all")
    assert (parent["pid"], len(rows(parent, "threads"))) == (process.pid, 2)
    (only,) = rows(child, "threads")
    assert (only["comm"], str(only["State"])[0]) == ("sleep", "S")


def test_what_is_not_allowed_says_so(tmp_path: Path) -> None:
    """Pins that a refusal is told in the place of what it hides, as is a file that is not there."""
    task = tmp_path / "proc/7/task/7"
    task.mkdir(parents=True)
    (task / "comm").write_text("camera\n")
    (task / "status").write_text("Name:\tcamera\nState:\tD (disk sleep)\n")
    (task / "wchan").write_text("io_schedule")
    (task / "stack").mkdir()
    (tmp_path / "proc/7/stat").write_text("7 (cam) era)) S 1 7 7\n")
    (process,) = rows({"all": threads.read(7, tmp_path)}, "all")
    (one,) = rows(process, "threads")
    assert (one["comm"], one["State"], one["wchan"]) == ("camera", "D (disk sleep)", "io_schedule")
    assert str(one["stack"]).startswith("not readable")
    assert str(one["syscall"]).startswith("not readable")


def test_waits_grow_only_while_somebody_wants_the_cpu() -> None:
    """Pins the run-queue wait and the time on a CPU, in µs; a process that is gone has none."""
    process = sleeper()
    first = threads.waits(process.pid)
    assert first is not None
    assert 0 <= first[1] < 1_000_000
    process.kill()
    process.wait()
    assert threads.waits(process.pid) is None


def _task(root: Path, pid: int, waited_ns: int, *, parent: int = 1, children: str | None = None) -> None:
    task = root / f"proc/{pid}/task/{pid}"
    task.mkdir(parents=True)
    (task.parent.parent / "stat").write_text(f"{pid} (x) S {parent} 1 1\n")
    (task / "schedstat").write_text(f"1000 {waited_ns} 5\n")
    if children is not None:
        (task / "children").write_text(children)


@pytest.mark.parametrize("lists", [True, False])
def test_who_works_behind_a_shell_waits_for_it(tmp_path: Path, *, lists: bool) -> None:
    """Pins that the waits of all descendants count, whether the kernel lists children (CONFIG_PROC_CHILDREN) or not."""
    _task(tmp_path, 7, 0, children="8 9 " if lists else None)
    _task(tmp_path, 8, 5000, parent=7, children="10 " if lists else None)
    _task(tmp_path, 9, 0, parent=7, children="" if lists else None)
    _task(tmp_path, 10, 3000, parent=8, children="7 " if lists else None)
    _task(tmp_path, 11, 9000, children="" if lists else None)
    assert threads.waits(7, tmp_path) == (8.0, 4.0)


def test_a_crowd_is_looked_at_in_part(tmp_path: Path) -> None:
    """Pins that a workload which forks without end costs no more than `PROCESSES` of it."""
    _task(tmp_path, 1000, 1000, children=" ".join(map(str, range(1001, 1100))))
    for pid in range(1001, 1100):
        _task(tmp_path, pid, 1000, children="")
    assert threads.waits(1000, tmp_path) == (float(threads.PROCESSES), float(threads.PROCESSES))


@pytest.mark.parametrize("text", ["", "1 2", "a b c", "-1 2 3", "1 2 3 4"])
def test_a_schedstat_of_another_form_is_none(tmp_path: Path, text: str) -> None:
    """Pins that a kernel without CONFIG_SCHED_INFO gives nothing, never 0."""
    task = tmp_path / "proc/7/task/7"
    task.mkdir(parents=True)
    (task / "schedstat").write_text(text)
    assert threads.waits(7, tmp_path) is None
