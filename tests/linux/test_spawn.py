"""Children of the keeper: what they find when they start."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from pathlib import Path

import pytest

from agent.linux import spawn
from agent.linux.fdstore import MOST, FdStore
from tests.keepers import open_fds

LOOK = """
import json, os, resource, sys
found = {
    "leads": os.getsid(0) == os.getpid() == os.getpgrp(),
    "stdin": os.readlink("/proc/self/fd/0"),
    "fds": sorted(n for n in map(int, os.listdir("/proc/self/fd")) if os.path.exists(f"/proc/self/fd/{n}")),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE),
    "env": dict(os.environ),
    "pid": os.getpid(),
}
open(sys.argv[1], "w").write(json.dumps(found))
"""


def _look(folder: Path, fds: dict[int, str]) -> dict[str, object]:
    out = folder / "found"
    pid = spawn.spawn([sys.executable, "-I", "-S", "-c", LOOK, str(out)], {"A": "b"}, fds)
    assert os.waitpid(pid, 0) == (pid, 0)
    found: dict[str, object] = json.loads(out.read_text())
    assert found["pid"] == pid
    return found


def _of_whoever_started_us() -> list[int]:
    fds = (int(path.name) for path in Path("/proc/self/fd").iterdir() if path.exists())
    return sorted(fd for fd in fds if fd > 5 and os.get_inheritable(fd))


def test_what_a_child_finds(tmp_path: Path) -> None:
    """Pins a session of its own, default signals, /dev/null, no descriptor of ours, exactly its environment, our limits."""
    with (tmp_path / "ours").open("w"):
        found = _look(tmp_path, {})
    assert found["leads"] is True
    assert found["stdin"] == "/dev/null"
    assert found["fds"] == [0, 1, 2, *_of_whoever_started_us()]
    assert {key: value for key, value in dict(found["env"]).items() if key != "LC_CTYPE"} == {"A": "b"}  # type: ignore[call-overload]
    assert found["files"] == list(resource.getrlimit(resource.RLIMIT_NOFILE))


def test_no_signal_is_ignored_or_blocked(tmp_path: Path) -> None:
    """Pins that what this interpreter ignores (SIGPIPE) and blocks is not inherited."""
    out = tmp_path / "found"
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    pid = spawn.spawn(["sh", "-c", f"exec grep -E 'Sig(Ign|Blk)' /proc/self/status > {out}"], {"PATH": os.environ["PATH"]}, {})
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    os.waitpid(pid, 0)
    blocked, ignored = (int(word, 16) for word in out.read_text().split()[1::2])
    assert blocked == 0
    assert ignored & ~(3 << 31) == 0  # 32 and 33 are glibc's own; its posix_spawn(3) ignores them


def test_descriptors_are_passed_from_three_on(tmp_path: Path) -> None:
    """Pins the protocol of sd_listen_fds(3), the child's own pid in it, whatever the numbers were here."""
    store = FdStore()
    pipes = [os.pipe() for _ in range(2)]
    assert store.take("a", [pipes[0][0], pipes[1][1]], "x") == 0
    assert store.take("a", [pipes[1][0]], "y") == 0
    found = _look(tmp_path, store.of("a"))
    env = dict(found["env"])  # type: ignore[call-overload]
    assert (env["LISTEN_FDS"], env["LISTEN_FDNAMES"], env["LISTEN_PID"]) == ("3", "x:x:y", str(found["pid"]))
    assert found["fds"] == [*range(6), *_of_whoever_started_us()]
    store.remove("a", "x")
    assert list(store.of("a").values()) == ["y"]
    store.remove("a", "y")
    store.remove("nobody", "y")
    os.close(pipes[0][1])


def test_the_store_is_bounded() -> None:
    """Pins that what finds no room is closed and counted, and that a bad descriptor is no end."""
    store = FdStore()
    before = open_fds()
    assert store.take("a", [os.dup(0) for _ in range(MOST + 4)], "x") == 4
    assert open_fds() == before + MOST
    store.remove("a", "x")
    assert open_fds() == before


@pytest.mark.parametrize("command", ["/no/such", "/etc/passwd", "no-such-program-on-path", "a\0b"])
def test_what_cannot_be_executed(command: str) -> None:
    """Pins that this is told at once, not by a child that ends."""
    with pytest.raises((OSError, ValueError)):
        spawn.spawn([command], {}, {})


@pytest.mark.root
def test_a_preferred_keeper_has_ordinary_children() -> None:
    """Pins that its nice value is not inherited."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    try:
        pid = spawn.spawn(["sleep", "100"], {"PATH": os.environ["PATH"]}, {})
        assert os.getpriority(os.PRIO_PROCESS, pid) == 0
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


@pytest.mark.root
def test_the_oom_score_of_the_keeper_is_not_inherited() -> None:
    """Pins that a protected keeper has unprotected children."""
    score = Path("/proc/self/oom_score_adj")
    before = score.read_text()
    try:
        try:
            score.write_text("-500")
        except PermissionError:
            pytest.skip("CAP_SYS_RESOURCE is missing here")
        pid = spawn.spawn(["sleep", "100"], {}, {})
        assert Path(f"/proc/{pid}/oom_score_adj").read_text() == "0\n"
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    finally:
        score.write_text(before)
