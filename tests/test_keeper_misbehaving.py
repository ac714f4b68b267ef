"""Workloads that misbehave, each as a real process beside a good one: a named notice or state, and nothing else stops."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.brokers import wait_for
from tests.keepers import Client, Keeper, LabConfig, alive, begin, keeper, put_down, python, workload

GOOD = workload(
    "good",
    python("from agent import watch; import time\nwith watch.Watch() as me:\n while 1: me.beat(done=1); time.sleep(.1)"),
    notify="watchdog",
)
READY = "from agent import watch; import time\nwith watch.Watch(): time.sleep(1000)"
SAY = "import os, socket, time\ns = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); s.connect(os.environ['NOTIFY_SOCKET'])\n"


@contextmanager
def beside_a_good_one(lab_config: LabConfig, bad: str) -> Iterator[tuple[Keeper, Client]]:
    """Run `bad` beside a good workload, which must not have noticed when the block ends."""
    with keeper(lab_config(GOOD + bad)) as found, found.client(keeper="x") as client:
        pid = client.wait(type="state", name="good", state="running")["pid"]
        yield found, client
        work = _work(client)
        wait_for(lambda: _work(client) > work, "the good one works on, and the keeper tells it")
        assert client.state("good")["pid"] == pid
        assert not client.of(type="exit", name="good")
        assert found.process.poll() is None


def _work(client: Client) -> int:
    beats = [one["beats"]["good"]["work"] for one in client.of(type="beats") if "good" in one["beats"]]
    return int(beats[-1]) if beats else 0


def _bad(code: str, **more: object) -> str:
    return workload("bad", python(SAY + code), **more)


_EVENT = r"b'X_GATEWARDEN_EVENT=video.audio_lost\nX_GATEWARDEN_DATA={\"camera\": 1}'"
# What is said, what its notice is called, a key of its data and the value of that.
STRANGE: tuple[tuple[str, str, str, object], ...] = (
    ("s.send(b'WATCHDOG_USEC=-1')", "malformed", "faults", ["WATCHDOG_USEC: want an integer of 0 .. 86400000000"]),
    ("s.send(b'MAINPID=1')", "malformed", "faults", ["MAINPID: want an integer of 2 .. 4194304"]),
    ("s.send(b'MAINPID=%d' % os.getppid())", "bad_main_pid", "", None),
    ("s.send(b'X' * 9000)", "oversized", "limit", 8192),
    ("s.setsockopt(socket.SOL_SOCKET, 32, 1 << 22); s.send(b'STATUS=' + b'x' * (1 << 20))", "oversized", "limit", 8192),
    ("s.send(b'WATCHDOG=trigger')", "watchdog_trigger", "", None),
    ("s.send(b'ERRNO=5')", "errno", "errno", 5),
    (f"s.send({_EVENT})", "event", "data", {"camera": 1}),
)


def test_every_strange_datagram_has_its_notice(lab_config: LabConfig) -> None:
    """Pins what each unusual thing that a workload can say is called, and that the workload goes on."""
    codes = [python(f"{SAY}s.send(b'READY=1')\n{code}\ntime.sleep(1000)") for code, *_rest in STRANGE]
    bad = "".join(workload(f"bad-{at}", code, notify="ready") for at, code in enumerate(codes))
    with beside_a_good_one(lab_config, bad) as (_found, client):
        for at, (_code, what, key, value) in enumerate(STRANGE):
            told = client.wait(type="notice", name=f"bad-{at}", what=what)
            assert not key or told["data"][key] == value
            assert client.state(f"bad-{at}")["state"] == "running"


def test_who_does_not_belong_to_it_is_not_heard(lab_config: LabConfig) -> None:
    """Pins the credentials check: a READY=1 of another process counts for nothing, and is told with its pid."""
    bad = workload("bad", ["sleep", "1000"], notify="ready")
    with beside_a_good_one(lab_config, bad) as (found, client), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        client.wait(type="state", name="bad", state="starting")
        sock.sendto(b"READY=1", str(found.folder / "notify-bad.sock"))
        assert client.wait(type="notice", name="bad", what="bad_sender")["data"]["pid"] == os.getpid()
        assert client.state("bad")["state"] == "starting"


def test_a_child_may_speak_for_it(lab_config: LabConfig) -> None:
    """Pins that the process tree counts, not the main pid alone: shells and multiprocessing say READY=1 from a child."""
    bad = workload(
        "bad",
        ["sh", "-c", f"'{sys.executable}' -c \"$CODE\"; sleep 1000"],
        notify="ready",
        env={"CODE": f"{SAY}s.send(b'READY=1'); time.sleep(.3)"},
    )
    with beside_a_good_one(lab_config, bad) as (_found, client):
        client.wait(type="state", name="bad", state="running")


def test_one_that_forks_away_is_followed(lab_config: LabConfig) -> None:
    """Pins the daemon that nobody asked to be one: main exits 0, its child is the workload now, and watched as one."""
    code = "import os, time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\ntime.sleep(1000)"
    with beside_a_good_one(lab_config, workload("bad", python(code))) as (_found, client):
        told = client.wait(type="notice", name="bad", what="forked_away")["data"]
        wait_for(lambda: client.state("bad")["pid"] not in {None, told["before"]}, "another main process")
        time.sleep(0.2)
        last = client.of(type="notice", name="bad", what="forked_away")[-1]["data"]["pid"]
        assert alive(last)
        os.kill(last, signal.SIGKILL)
        assert client.wait(type="exit", name="bad")["pid"] == last
        assert client.of(type="exit", name="bad")[0]["signal"] == signal.SIGKILL


def test_mainpid_moves_the_main_process(lab_config: LabConfig) -> None:
    """Pins MAINPID: the process named is watched from then on; the end of the first one is no end."""
    code = "pid = os.fork()\nif pid:\n s.send(b'MAINPID=%d\\nREADY=1' % pid); time.sleep(.3); os._exit(3)\ntime.sleep(1000)"
    with beside_a_good_one(lab_config, _bad(code, notify="ready")) as (_found, client):
        told = client.wait(type="notice", name="bad", what="main_pid")["data"]
        time.sleep(0.6)
        assert not alive(told["before"])
        assert client.state("bad")["pid"] == told["pid"]
        assert not client.of(type="exit", name="bad")
        os.kill(told["pid"], signal.SIGKILL)
        assert client.wait(type="exit", name="bad")["pid"] == told["pid"]


def test_what_a_dead_one_left_behind_is_ended(lab_config: LabConfig) -> None:
    """Pins that the replacement finds no remains: children in its group, and those in sessions of their own."""
    child = "if not os.fork():\n time.sleep(1000)"
    apart = "if not os.fork():\n os.setsid(); time.sleep(1000)"
    code = f"import os, time\n{child}\n{apart}\ntime.sleep(.5); os.abort()"
    with beside_a_good_one(lab_config, workload("bad", python(code), restart={"burst": 0})) as (found, client):
        client.wait(type="exit", name="bad")
        wait_for(
            lambda: len(_descendants(found.process.pid)) == 1, lambda: f"only the good one: {_descendants(found.process.pid)}"
        )
        assert client.wait(type="notice", name="bad", what="left_behind")["data"]["count"] == 1


def test_what_an_orphan_leaves_behind_is_ended_too(lab_config: LabConfig) -> None:
    """Pins that a sweep goes on with what becomes the keeper's by it: children of an orphan, wherever they are."""
    deep = ["/bin/sh", "-c", "setsid sh -c 'setsid sh -c \"sleep 998 & setsid sleep 997\" & sleep 996' & sleep 0.5; exit 3"]
    with beside_a_good_one(lab_config, workload("bad", deep, restart={"burst": 0})) as (found, client):
        client.wait(type="exit", name="bad")
        wait_for(
            lambda: len(_descendants(found.process.pid)) == 1, lambda: f"only the good one: {_descendants(found.process.pid)}"
        )
        assert client.wait(type="notice", name="bad", what="left_behind")["data"]["count"] >= 4


@pytest.mark.parametrize("instead", ["true", 'mkfifo "$NOTIFY_SOCKET"', 'ln -s /dev/null "$NOTIFY_SOCKET"'])
def test_who_removes_its_notify_socket_harms_itself_alone(lab_config: LabConfig, tmp_path: Path, instead: str) -> None:
    """Pins that the next process has a socket again, whatever was put in its place."""
    ready = f"test -e {tmp_path}/done && exec {' '.join(map(shlex.quote, python(READY)))}"
    spoil = ["/bin/sh", "-c", f'{ready}; touch {tmp_path}/done; rm "$NOTIFY_SOCKET"; {instead}; exit 3']
    with beside_a_good_one(lab_config, workload("bad", spoil, notify="ready")) as (_found, client):
        assert client.wait(type="state", name="bad", state="running")["restarts"] == 1


def test_a_folder_in_place_of_its_notify_socket_is_named(lab_config: LabConfig) -> None:
    """Pins that a workload that nobody could hear is not started, and why is told."""
    spoil = ["/bin/sh", "-c", 'rm "$NOTIFY_SOCKET"; mkdir "$NOTIFY_SOCKET"; exit 3']
    with beside_a_good_one(lab_config, workload("bad", spoil, notify="ready")) as (_found, client):
        why = client.wait(type="notice", name="bad", what="exec_failed")["data"]["why"]
    assert "notify-bad.sock: cannot bind" in why


def _descendants(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split() if alive(int(one))]


def test_one_that_ignores_sigterm_is_killed(lab_config: LabConfig) -> None:
    """Pins the bounded stop: SIGKILL to the group after the grace, and the notice that says so."""
    code = "import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN); s.send(b'READY=1')\nwhile 1: time.sleep(1000)"
    with beside_a_good_one(lab_config, _bad(code, notify="ready", degrade=["low"])) as (_found, client):
        client.wait(type="state", name="bad", state="running")
        done = client.order("degrade", "bad", profile="low")  # 3 s to confirm, 1 s to end; other orders give 10 s
        assert done["ok"]
        assert 4000 <= done["ms"] < 6000
        assert client.wait(type="notice", name="bad", what="ignores_sigterm")
        told = client.wait(type="exit", name="bad")
        assert told["signal"] == signal.SIGKILL
        os.kill(told["replaced_pid"], signal.SIGKILL)  # or the end of the keeper would take its time, too
        client.order("stop", "bad")


def test_a_stopped_one_can_be_ended(lab_config: LabConfig) -> None:
    """Pins that SIGSTOP does not keep a workload from hearing SIGTERM, and that stopping and continuing is no exit."""
    with beside_a_good_one(lab_config, workload("bad", ["sleep", "1000"])) as (_found, client):
        pid = client.wait(type="state", name="bad", state="running")["pid"]
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.2)
        assert not client.of(type="exit", name="bad")
        done = client.order("restart", "bad")
        assert done["ok"]
        assert done["ms"] < 5000


def test_a_program_that_does_not_exist(lab_config: LabConfig) -> None:
    """Pins `exec_failed` with the system's reason, and that it is tried again."""
    with beside_a_good_one(lab_config, workload("bad", ["/no/such/program"])) as (_found, client):
        assert "No such file" in client.wait(type="notice", name="bad", what="exec_failed")["data"]["why"]
        client.wait(type="state", name="bad", state="backoff", count=2)


def test_a_flood_of_datagrams_is_throttled(lab_config: LabConfig) -> None:
    """Pins that one that says everything as fast as it can, by ever new names, costs others nothing and fills no history."""
    everything = r"b'RELOADING=1\nX_GATEWARDEN_EVENT=work.flood_%d\nWATCHDOG_USEC=x' % n"
    code = f"s.send(b'READY=1'); n = 0\nwhile 1: n += 1; s.send({everything}); s.send(b'READY=1')"
    with beside_a_good_one(lab_config, _bad(code, notify="ready")) as (_found, client):
        client.wait(type="notice", name="bad", what="malformed")
        time.sleep(2)
        assert client.order("restart", "bad")["ok"]
        assert len(client.of(type="notice", name="bad")) <= 20
        assert len(client.of(type="state", name="bad")) <= 40


def test_descriptors_outlive_the_process(lab_config: LabConfig) -> None:
    """Pins FDSTORE: the replacement gets them by LISTEN_FDS under their names; more than the limit are refused by a notice."""
    code = """
import array, sys
def left(name, fds):
    s.sendmsg([b'FDSTORE=1\\nFDNAME=' + name], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', fds))])
if 'LISTEN_FDS' in os.environ:
    assert os.environ['LISTEN_PID'] == str(os.getpid())
    names = os.environ['LISTEN_FDNAMES'].split(':')
    first = os.read(3 + names.index('frames'), 10)
    s.send(b'STATUS=%d %s\\nREADY=1' % (len(names), first)); time.sleep(1000)
r, w = os.pipe(); os.write(w, b'kept')
left(b'frames', [r]); left(b'gone', [w]); s.send(b'FDSTOREREMOVE=1\\nFDNAME=gone')
left(b'more', [r] * 20)
s.send(b'READY=1'); os.abort()
"""
    with beside_a_good_one(lab_config, _bad(code, notify="ready")) as (_found, client):
        assert client.wait(type="notice", name="bad", what="fds_refused")["data"] == {"refused": 5, "most": 16}
        client.wait(type="state", name="bad", state="running", restarts=1, status="16 kept")


def test_a_pipe_that_nobody_reads_holds_up_the_workload_alone(lab_config: LabConfig) -> None:
    """Pins that the keeper shares its output with workloads and never waits for it: one fills the pipe, the rest goes on."""
    bad = workload("bad", ["sh", "-c", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done"])
    reading, writing = os.pipe()
    found = begin(lab_config(GOOD + bad), stdout=writing, stderr=writing)
    try:
        with found.client() as client:
            pid = client.wait(type="state", name="good", state="running")["pid"]
            time.sleep(0.5)  # 64 KiB are full long before
            for count in range(1, 6):
                os.kill(client.state("good")["pid"], signal.SIGKILL)
                client.wait(type="state", name="good", restarts=count, state="running")
            assert client.order("stop", "bad")["ok"]
            assert pid
            found.process.terminate()
            assert found.process.wait(20) == 0
    finally:
        put_down(found)
        os.close(reading)
        os.close(writing)


def test_barrier_tells_the_sender_that_it_was_heard(lab_config: LabConfig) -> None:
    """Pins BARRIER=1: the descriptor that came along is closed, which is what `systemd-notify` waits for."""
    bad = workload("bad", ["sh", "-c", "systemd-notify --ready --status=here && echo done && sleep 1000"], notify="ready")
    if subprocess.run(["sh", "-c", "command -v systemd-notify"], capture_output=True, check=False).returncode:
        pytest.skip("systemd-notify is not installed")
    with beside_a_good_one(lab_config, bad) as (found, client):
        client.wait(type="state", name="bad", state="running", status="here")
        wait_for(lambda: "done" in found.said(), found.said)


def test_hundreds_of_deaths_leave_nothing_behind(lab_config: LabConfig) -> None:
    """Pins the long run: 300 kills of 10 workloads, each replaced; no zombie, no descriptor, no memory left over."""
    names = [f"w{number}" for number in range(10)]
    many = "".join(workload(name, ["sleep", "1000"], restart={"burst": 1000}) for name in names)
    with beside_a_good_one(lab_config, many) as (found, client):
        took = []
        for number in range(300):
            name = names[number % 10]
            wait_for(lambda name=name: client.state(name)["state"] == "running", name)  # type: ignore[misc]
            os.kill(client.state(name)["pid"], (signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM)[number % 3])
            took.append(client.wait(type="exit", name=name, count=number // 10 + 1)["replaced_ms"])
            if number == 20:
                before = _size(found)
        assert sorted(took)[150] < 50
        after = _size(found)
        assert after[0] == before[0]
        assert after[1] - before[1] < 2048
        assert not [
            pid
            for pid in Path(f"/proc/{found.process.pid}/task/{found.process.pid}/children").read_text().split()
            if not alive(int(pid))
        ]


def _size(found: Keeper) -> tuple[int, int]:
    folder = Path(f"/proc/{found.process.pid}")
    rss = next(int(line.split()[1]) for line in (folder / "status").read_text().splitlines() if line.startswith("VmRSS"))
    return len(list((folder / "fd").iterdir())), rss


def test_many_that_are_stopped_starved_and_leak(lab_config: LabConfig) -> None:
    """Pins the crowd: 20 workloads that leave 10 processes each in sessions of their own, beside hogs that starve all of them.

    Stopping them is no exit; killing them replaces each one, and ends all 200 that they left.
    """
    leak = "for _ in range(10):\n if not os.fork():\n  os.setsid(); time.sleep(1000)"
    code = f"import os, time\n{leak}\nwhile 1: time.sleep(1000)"
    names = [f"w{number}" for number in range(20)]
    many = "".join(workload(name, python(code), restart={"burst": 100}) for name in names)
    with beside_a_good_one(lab_config, many) as (found, client), ExitStack() as stack:
        for _ in range(8):
            hog = stack.enter_context(subprocess.Popen(["sh", "-c", "while :; do :; done"]))
            stack.callback(hog.kill)
        wait_for(lambda: len(_tree(found)) == 1 + 20 * 11, lambda: f"all have leaked: {len(_tree(found))}", 60)
        pids = {name: client.state(name)["pid"] for name in names}
        for number in (signal.SIGSTOP, signal.SIGCONT):
            for pid in pids.values():
                os.kill(pid, number)
            time.sleep(0.2)
        assert not client.of(type="exit")
        leaked = set(_tree(found)) - set(pids.values()) - {client.state("good")["pid"]}
        for name, pid in pids.items():
            os.kill(pid, signal.SIGKILL)
            assert client.wait(type="exit", name=name)["replaced_pid"]
        wait_for(lambda: not [pid for pid in leaked if alive(pid)], "what they left has ended", 60)
        wait_for(lambda: len(_tree(found)) == 1 + 20 * 11, "the new ones leak as well", 60)


def _tree(found: Keeper) -> list[int]:
    pids = _descendants(found.process.pid)
    for pid in pids:
        with suppress(OSError):
            pids += _descendants(pid)
    return pids
