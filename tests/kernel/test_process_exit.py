"""process_exit in the running kernel: real deaths, each told once, at once, with its cause."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast, get_type_hints

import pytest
from annotated_types import MaxLen

from agent.config import Config
from agent.model import Data, Sighting
from agent.probes import process_exit
from tests.kernel import live
from tests.kernel.live import Live, python, running

pytestmark = pytest.mark.kernel

NAMED = "open('/proc/self/comm', 'w').write('gw-watched')\n"
CRASH = "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n"
EATER = "import sys\nsys.stdin.readline()\nhold = []\nwhile True: hold.append(bytearray(b'x' * (1 << 20)))"
LIMIT = 48 << 20


@pytest.fixture
def watching() -> Iterator[Live]:
    """Give the probe, watching `sleep` and `gw-watched`."""
    with live.live("process_exit") as probe:
        probe.steer(comm=("sleep", "gw-watched"))
        yield probe


def death(probe: Live, pid: int) -> Sighting:
    """Wait for the event of one process."""
    return probe.wait_for(lambda item: item.data["tgid"] == pid, lambda: time.sleep(0.005))


@pytest.mark.host_pids
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_killed_process_is_told_at_once_with_its_signal(watching: Live, number: signal.Signals) -> None:
    """Name, signal, no code; the event is in the ring before its parent has been told by wait(2), within milliseconds."""
    with running("sleep", "60") as child:
        time.sleep(0.05)
        killed_ns = time.monotonic_ns()
        child.send_signal(number)
        found = death(watching, child.pid)
    assert (found.kind, found.subject, found.severity) == ("proc.exit", "sleep", "warning")
    assert found.data == {
        "pid": child.pid, "tgid": child.pid, "comm": "sleep", "code": 0, "signal": number, "core": False, "oom": False,
        "workload": None,
    }  # fmt: skip
    assert 0 < found.t_mono_ns - killed_ns < 100e6


@pytest.mark.host_pids
@pytest.mark.parametrize("code", [0, 3, 255])
def test_an_exit_code_is_told(watching: Live, code: int) -> None:
    """What the program gave to exit(2), and no signal."""
    with running(*python(NAMED + f"raise SystemExit({code})")) as child:
        child.wait()
    found = death(watching, child.pid)
    assert (found.subject, found.data["code"], found.data["signal"]) == ("gw-watched", code, 0)


def test_who_is_not_watched_is_silent_but_counted(watching: Live) -> None:
    """Other names end without an event; the totals count each process once."""
    before = watching.snapshot()
    for _ in range(20):
        subprocess.run(["true"], check=True)
    names = {item.subject for item in watching.sightings()}
    assert "true" not in names
    assert cast("int", watching.report(before)["exits"]) >= 20


@pytest.mark.host_pids
def test_a_watched_pid_is_told_whatever_its_name(watching: Live) -> None:
    """The map `pids` is for workloads: the process id is enough."""
    with running(*python("input()"), stdin=-1) as child:
        watching.maps.replace("pids", {child.pid.to_bytes(4, "little"): b"\1"})
        child.kill()
        assert death(watching, child.pid).data["signal"] == signal.SIGKILL


@pytest.mark.host_pids
def test_a_process_with_many_threads_dies_once(watching: Live) -> None:
    """One event and one count for eight threads that leave together; the name is the process's, not a thread's."""
    code = (
        NAMED
        + "import threading, time\nfor _ in range(8): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        + "print(flush=True)\ntime.sleep(60)"
    )
    deaths = 10
    pids = []
    for _ in range(deaths):
        with running(*python(code)) as child:
            assert child.stdout is not None
            child.stdout.readline()
            child.kill()
            child.wait()
            pids.append(child.pid)
    time.sleep(0.1)
    found = [item.data["tgid"] for item in watching.sightings() if item.subject == "gw-watched"]
    assert sorted(map(int, map(str, found))) == sorted(pids)


@pytest.mark.host_pids
def test_a_leader_that_left_first_gives_its_code(watching: Live, tmp_path: Path) -> None:
    """The main thread ends by pthread_exit, another 50 ms later: the status is what wait(2) gives, not the last thread's."""
    source = (
        "#include <pthread.h>\n#include <unistd.h>\n#include <sys/syscall.h>\n"
        "static void *last(void *x) { usleep(50000); syscall(SYS_exit, 5); return x; }\n"
        "int main(void) { pthread_t t; pthread_create(&t, 0, last, 0); syscall(SYS_exit, 3); return 0; }\n"
    )
    program = live.compiled(tmp_path, "gw-watched", source)
    with running(str(program)) as child:
        status = child.wait()
    found = death(watching, child.pid)
    assert found.data["code"] == status
    assert found.data["pid"] != found.data["tgid"]


@pytest.mark.host_pids
def test_a_core_dump_is_told_whoever_it_is(tmp_path: Path) -> None:
    """Nobody watches this name: that it dumped core is enough."""

    def allow_core() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with live.live("process_exit") as probe:
        probe.steer()
        with running(*python(CRASH), cwd=tmp_path, preexec_fn=allow_core) as child:
            status = child.wait()
        assert status == -signal.SIGSEGV
        pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
        if not pattern.startswith("|") and not list(tmp_path.glob("*core*")):
            pytest.skip(f"no core is written here (core_pattern {pattern!r}, core size limit {resource.getrlimit(4)})")
        found = death(probe, child.pid)
    assert (found.data["signal"], found.data["core"], found.severity) == (signal.SIGSEGV, True, "error")


@contextlib.contextmanager
def memory_cgroup() -> Iterator[Path]:
    """Give a cgroup limited to LIMIT bytes, of whichever version has the memory controller; skips where none has."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    first = [Path(where) for _, where, kind, options, *_ in mounts if kind == "cgroup" and "memory" in options.split(",")]
    second = [Path(where) for _, where, kind, *_ in mounts if kind == "cgroup2"]
    folder, limit = None, ""
    if first:
        folder, limit = first[0] / f"gw-test-{os.getpid()}", "memory.limit_in_bytes"
    elif second and "memory" in (second[0] / "cgroup.subtree_control").read_text():
        folder, limit = second[0] / f"gw-test-{os.getpid()}", "memory.max"
    if folder is None:
        pytest.skip("no memory controller that this process may use")
    try:
        folder.mkdir()
        (folder / limit).write_text(str(LIMIT))
        for swap in ("memory.memsw.limit_in_bytes", "memory.swap.max"):
            with contextlib.suppress(OSError):
                (folder / swap).write_text(str(LIMIT if "memsw" in swap else 0))
    except OSError as error:
        pytest.skip(f"the memory controller cannot be written: {error}")
    try:
        yield folder
    finally:
        for _ in range(50):
            with contextlib.suppress(OSError):
                folder.rmdir()
                break
            time.sleep(0.02)


@pytest.mark.host_pids
def test_an_oom_victim_is_told_whoever_it_is() -> None:
    """A process that outgrows its memory cgroup: oom is true, the signal is 9, the severity critical."""
    with memory_cgroup() as folder, live.live("process_exit") as probe:
        probe.steer()
        before = probe.snapshot()
        with running(*python(EATER), stdin=-1) as child:
            (folder / "cgroup.procs").write_text(str(child.pid))
            assert child.stdin is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert child.wait() == -signal.SIGKILL
        found = death(probe, child.pid)
        report: Data = probe.report(before)
    assert (found.data["oom"], found.data["signal"], found.severity) == (True, signal.SIGKILL, "critical")
    assert cast("int", report["oom"]) >= 1
    assert cast("int", report["signalled"]) >= 1


def longest(owner: type, field: str) -> int:
    """Give how many items the configuration lets a list have."""
    metadata = get_type_hints(owner, include_extras=True)[field].__metadata__
    return next(int(item.max_length) for item in metadata if isinstance(item, MaxLen))


def test_every_name_that_a_configuration_may_hold_finds_room() -> None:
    """As many commands as `comm` may list, and as many workloads as there may be, all of other names: none is refused."""
    most = longest(process_exit.Options, "comm") + longest(Config, "workload")
    with live.live("process_exit") as probe:
        probe.steer(comm=tuple(f"gw-{index}" for index in range(most)))
        assert len(list(probe.maps.items("comms"))) == most
