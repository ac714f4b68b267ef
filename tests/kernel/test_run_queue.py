"""run_queue in the running kernel, with the kernel's own switch counts as the oracle."""

from __future__ import annotations

import contextlib
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from agent.linux import procfs
from agent.model import Data
from agent.probes import run_queue
from tests.kernel import live
from tests.kernel.live import Live, agrees, python, running

pytestmark = pytest.mark.kernel

RIVALRY_S = 1.5
PREEMPTED = 2  # STATE_PREEMPTED in bpf/run_queue.bpf.h
HOG = python("while True: pass")
SLEEPER = python("import time\nwhile True: time.sleep(0.002)")
WANDERER = python(
    "import os, time\n"
    "cpus = sorted(os.sched_getaffinity(0))\n"
    "input()\n"
    "for turn in range(40):\n os.sched_setaffinity(0, {cpus[turn % 2 * (len(cpus) - 1)]})\n time.sleep(0.005)\n"
    "print(flush=True)\ninput()"
)
# The parent of a vfork() sleeps uninterruptibly (TASK_KILLABLE) until its child is gone.
VFORK = "#include <unistd.h>\nint main(void) { if (vfork() == 0) { usleep(900000); _exit(0); } return 0; }\n"


def row_of(probe: Live, tgid: int, before: Data | None = None) -> Data:
    """Give the report's row of one process."""
    return next(row for row in probe.rows("processes", before) if row["pid"] == tgid)


def switches(pid: int) -> tuple[int, int]:
    """Give the kernel's own voluntary and involuntary switches of a task."""
    lines = dict(line.split(":\t") for line in Path(f"/proc/{pid}/status").read_text().splitlines() if "ctxt" in line)
    return int(lines["voluntary_ctxt_switches"]), int(lines["nonvoluntary_ctxt_switches"])


@pytest.mark.host_pids
def test_rivals_on_one_cpu_wait_and_are_preempted(last_cpu: int) -> None:
    """Three hogs on one CPU: each waits for milliseconds, by tgid, and as often as the kernel says that it was preempted."""
    with contextlib.ExitStack() as stack:
        hogs = [stack.enter_context(running(*HOG, cpu=last_cpu)) for _ in range(3)]
        sleeper = stack.enter_context(running(*SLEEPER, cpu=last_cpu))
        probe = stack.enter_context(live.live("run_queue"))
        time.sleep(0.3)  # past their start
        children = (*hogs, sleeper)
        readings = [[switches(child.pid) for child in children]]
        probe.steer()
        readings.append([switches(child.pid) for child in children])
        time.sleep(RIVALRY_S)
        readings.append([switches(child.pid) for child in children])
        rows = {row["pid"]: row for row in probe.rows("processes")}
        readings.append([switches(child.pid) for child in children])
    for hog, first, inner, most_inner, last in zip(hogs, *readings, strict=False):
        row = rows[hog.pid]
        assert cast("float", cast("Data", row["run_queue_us"])["p99"]) > 1000
        assert agrees(cast("int", row["involuntary"]), most_inner[1] - inner[1], last[1] - first[1])
        assert cast("int", row["involuntary"]) > 20
        assert cast("int", row["voluntary"]) <= 2
    row, (first, inner, most_inner, last) = rows[sleeper.pid], (reading[-1] for reading in readings)
    assert agrees(cast("int", row["voluntary"]), most_inner[0] - inner[0], last[0] - first[0])
    assert cast("int", row["voluntary"]) > 20


@pytest.mark.host_pids
def test_a_long_wait_is_told_with_who_held_the_cpu(last_cpu: int) -> None:
    """Beyond its budget a wait is an event: who waited, who ran, and a kernel stack of the latter."""
    with live.live("run_queue") as probe, running(*HOG, cpu=last_cpu) as one, running(*HOG, cpu=last_cpu) as two:
        time.sleep(0.3)  # past their start
        probe.steer(latency_us=1000)
        pids = {one.pid, two.pid}
        found = probe.wait_for(lambda item: item.kind == "sched.latency" and item.data["pid"] in pids)
        assert found.data["tgid"] in pids
        assert found.data["running_pid"] != found.data["pid"]  # mostly the other; on a busy machine a third
        assert found.data["cpu"] == last_cpu
        assert cast("float", found.data["wait_us"]) > 1000
        assert str(found.data["comm"]).startswith("python")
        assert any("schedule" in frame for frame in cast("list[str]", found.data["stack"]))


@pytest.mark.host_pids
def test_each_move_to_another_cpu_is_a_migration() -> None:
    """A process that pins itself to one end of the machine and the other in turn is counted at each turn."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU only")
    with live.live("run_queue") as probe:
        probe.steer()
        with running(*WANDERER, stdin=-1) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
            child.stdout.readline()
            row = row_of(probe, child.pid)
    assert 38 <= cast("int", row["migrations"]) <= 80


@pytest.mark.host_pids
def test_threads_count_for_their_process(last_cpu: int) -> None:
    """Waits of all threads are under the tgid, with the name of the process; no thread has a row of its own."""
    threads = "import threading, time\n" + "f = lambda: [time.sleep(.002) for _ in range(200)]\n"
    code = threads + "for _ in range(4): threading.Thread(target=f).start()"
    with live.live("run_queue") as probe, running(*python(code), cpu=last_cpu) as child:
        probe.steer()
        tids = set()
        while child.poll() is None:
            with contextlib.suppress(OSError):
                tids |= {int(path.name) for path in Path(f"/proc/{child.pid}/task").iterdir()}
            time.sleep(0.02)
        rows = {row["pid"]: row for row in probe.rows("processes")}
    assert len(tids) >= 4
    assert cast("int", rows[child.pid]["voluntary"]) >= 4 * 150
    assert not (tids - {child.pid}) & set(rows)


@pytest.mark.host_pids
def test_a_new_name_is_seen_after_exec() -> None:
    """The name is that of the program that runs, not that of its parent at the fork."""
    with live.live("run_queue") as probe:
        probe.steer()
        with running("sleep", "0.2") as child:
            child.wait()
        assert row_of(probe, child.pid)["comm"] == "sleep"


@pytest.mark.host_pids
def test_blocked_tasks_are_told_while_they_are_and_when_they_wake(tmp_path: Path) -> None:
    """Uninterruptible for 0.9 s with a limit of 0.2: in the list with its age meanwhile, an event with all of it at the end."""
    program = live.compiled(tmp_path, "vforker", VFORK)
    with live.live("run_queue") as probe:
        probe.steer(blocked_ms=200)
        with running(str(program)) as child:
            time.sleep(0.6)
            listed = {cast("int", row["pid"]): row for row in cast("list[Data]", probe.snapshot()["blocked"])}
            standing = run_queue.standing(probe.maps, procfs.read_task)
            # A slow disk may have blocked it before.
            found = probe.wait_for(
                lambda item: item.data["pid"] == child.pid and cast("float", item.data.get("blocked_us", 0)) > 850_000
            )
    assert 200_000 < cast("float", listed[child.pid]["blocked_us"]) < 900_000
    told = next(item for item in standing.values() if item.data["pid"] == child.pid)
    assert (told.subject, told.data["waker_pid"], told.data["budget_us"]) == ("vforker", None, 200_000)
    assert found.kind == "sched.blocked"
    assert cast("float", found.data["blocked_us"]) < 2_000_000
    assert found.subject == "vforker"
    assert found.data["stack"] == []


@contextlib.contextmanager
def cgroup_v2() -> Iterator[Path]:
    """Give a fresh v2 cgroup; skips where no v2 hierarchy can be written."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    roots = [Path(fields[1]) for fields in mounts if fields[2] == "cgroup2"]
    if not roots:
        pytest.skip("no cgroup v2 hierarchy is mounted")
    folder = roots[0] / f"gw-test-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"cgroup v2 cannot be written: {error}")
    try:
        yield folder
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.02)


def test_waits_are_summed_by_cgroup() -> None:
    """A process moved into a v2 cgroup is under that cgroup's id, which is the inode of its folder."""
    with cgroup_v2() as folder, live.live("run_queue") as probe, running(*SLEEPER) as child:
        (folder / "cgroup.procs").write_text(str(child.pid))
        probe.steer()
        time.sleep(0.5)
        report = probe.report()
        groups = {row["id"]: row for row in cast("list[Data]", report["cgroups"])}
        inode = folder.stat().st_ino
        child.kill()
        child.wait()
    assert cast("int", cast("Data", groups[inode]["run_queue_us"])["count"]) > 50


def test_more_processes_than_there_is_room_for_are_told_as_other() -> None:
    """2,000 short processes through a table of 1,024: nothing is lost from the total, what gave way is `other`."""
    forks = "import os\nfor _ in range(2000):\n if (pid := os.fork()) == 0: os._exit(0)\n os.waitpid(pid, 0)"
    with live.live("run_queue") as probe:
        probe.steer()
        with running(*python(forks)) as child:
            child.wait()
        report = probe.report()
    rows = cast("list[Data]", report["processes"])
    other = next(row for row in rows if row["comm"] == "other")
    assert cast("int", cast("Data", other["run_queue_us"])["count"]) >= 900
    shown = sum(cast("int", cast("Data", row["run_queue_us"])["count"]) for row in rows)
    assert shown == cast("int", cast("Data", report["run_queue_us"])["count"]) >= 2000
    assert len(rows) <= 1025


READER = python("import sys\nprint(flush=True)\nsys.stdin.readline()\nprint(flush=True)\nsys.stdin.readline()")


@pytest.mark.host_pids
def test_a_task_that_waits_already_is_not_woken_anew() -> None:
    """Preempted on its way to sleep, then woken before it ran: it waits since the preemption, and the wait is involuntary."""
    with live.live("run_queue") as probe, running(*READER, stdin=-1) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdout.readline()
        probe.steer()
        time.sleep(0.2)  # it sleeps now
        pid, slots = child.pid, probe.maps.maps["slots"]
        index = (pid << 2 | pid >> 13 & 3) & 32767
        at_ns = time.monotonic_ns()
        word = pid << 42 | PREEMPTED << 40 | at_ns >> 6 & (1 << 40) - 1
        slots.update(struct.pack("=I", index), run_queue.SLOT.pack(word=word, cpu=run_queue_cpu(pid)))
        time.sleep(0.05)
        child.stdin.write(b"\n")
        child.stdin.flush()
        child.stdout.readline()
        row = row_of(probe, pid)
    assert row["voluntary"] == 0
    assert cast("int", row["involuntary"]) >= 1
    assert cast("float", cast("Data", row["run_queue_us"])["max"]) >= 50_000


def run_queue_cpu(pid: int) -> int:
    """Give the CPU that a task last ran on."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[36])


@pytest.mark.host_pids
def test_an_entry_of_another_process_is_made_anew() -> None:
    """Two CPUs that take one way at once leave a key that names the other's entry: the next switch mends it."""
    stranger = (1 << 22) + 1  # no pid
    with live.live("run_queue") as probe, running(*SLEEPER) as child:
        probe.steer()
        time.sleep(0.3)
        table = probe.maps.maps["processes"]
        found = ((at, run_queue.PROCESS.unpack(table.lookup(at) or b"")) for at in table.keys())  # noqa: SIM118 - not a dict
        at, row = next((at, row) for at, row in found if row["tgid"] == child.pid)
        table.update(at, run_queue.PROCESS.pack(**row | {"tgid": stranger, "involuntary": 10**6}))
        before = probe.snapshot()
        time.sleep(0.3)
        after = probe.snapshot()
        new = run_queue.PROCESS.unpack(table.lookup(at) or b"")
        other = run_queue.PROCESS.unpack(table.lookup(struct.pack("=I", run_queue.OTHER)) or b"")
    assert new["tgid"] == child.pid
    assert cast("int", new["made_ns"]) > cast("int", row["made_ns"])
    assert cast("int", new["involuntary"]) < 10**6 <= cast("int", other["involuntary"])
    lines = {line["pid"]: line for line in cast("list[Data]", probe.probe.report(before, after)["processes"])}
    assert stranger not in lines
    assert 0 < cast("int", lines[child.pid]["voluntary"]) < 1000
    assert "other" not in {line["comm"] for line in lines.values()}
