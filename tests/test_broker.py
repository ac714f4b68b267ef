"""The broker, as a real process, asked by real users: gatewarden without any capability, nobody, and root."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import broker
from agent.errors import BadRequest, NotRunning, Refused
from agent.linux import kallsyms, unix
from agent.linux.unixserver import Credentials
from agent.model import Data
from agent.rootverbs import Given, Verb
from tests.doubles import MemoryJournal

BARE = ["--clear-groups", "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
KMSG = """
import os, sys
from pathlib import Path
from agent.linux import evidence, kmsg, procfs
from agent.linux.brokerclient import BrokerClient
path = Path(sys.argv[1])
print(os.geteuid(), procfs.read_process().capabilities)
try:
    kmsg.open_kmsg()
except PermissionError:
    print("own: refused")
fd = BrokerClient(path).kmsg_fd()
print(os.readlink(f"/proc/self/fd/{fd}"), len(kmsg.last_lines(fd)) > 0, len(evidence.kernel_log(path)) > 0)
"""
KSYM = """
import sys
from pathlib import Path
from agent.errors import GatewardenError
from agent.linux import kallsyms
from agent.linux.brokerclient import BrokerClient
addresses = [int(text) for text in sys.argv[2:]]
try:
    kallsyms.read(addresses)
except GatewardenError as error:
    print("own:", error)
print(BrokerClient(Path(sys.argv[1])).symbols(addresses + list(range(1, 600))))
"""
ASK = """
import sys
from pathlib import Path
from agent.linux.unix import ask
ask(Path(sys.argv[1]), {"verb": "kmsg.open"})
"""

SYSTEMD = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execv(sys.executable, [sys.executable, "-P", "-m", "agent.broker", "--config", sys.argv[2], "--idle-exit", "0.5"])
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a runtime_dir that other users can reach, with an agent.toml that names it."""
    made = Path(tempfile.mkdtemp(prefix="gatewarden-broker-"))
    made.chmod(0o755)
    (made / "agent.toml").write_text(f'[paths]\nruntime_dir = "{made}"\n')
    yield made
    shutil.rmtree(made)


def start(folder: Path, *more: str) -> subprocess.Popen[str]:
    """Start a broker on `folder` and wait for its socket."""
    command = [sys.executable, "-P", "-m", "agent.broker", "--config", str(folder / "agent.toml"), *more]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 20
    while not _answers(folder / "broker.sock") and child.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    return child


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def end(child: subprocess.Popen[str]) -> str:
    """End it by SIGTERM and give what it wrote."""
    child.send_signal(signal.SIGTERM)
    _, text = child.communicate(timeout=10)
    return text


@pytest.fixture
def running(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Give a running broker on `folder`."""
    child = start(folder)
    yield child
    if child.poll() is None:
        end(child)


def as_user(uid: str, program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a Python program as `uid` in group gatewarden, with no capability at all."""
    command = ["setpriv", "--reuid", uid, "--regid", "gatewarden", *BARE, sys.executable, "-c", program]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.mark.kmsg
@pytest.mark.root
def test_gatewarden_reads_the_kernel_log(folder: Path, running: subprocess.Popen[str]) -> None:
    """Pins SCM_RIGHTS of /dev/kmsg to a process without capabilities, under dmesg_restrict=1, and the journal's line of it."""
    assert Path("/proc/sys/kernel/dmesg_restrict").read_text() == "1\n"
    result = as_user("gatewarden", KMSG, folder / "broker.sock")
    uid = pwd.getpwnam("gatewarden").pw_uid
    assert result.stdout.splitlines() == [f"{uid} 0", "own: refused", "/dev/kmsg True True"], result.stderr
    lines = end(running).splitlines()
    assert len(lines) == 2
    assert lines[0].startswith(f"<6>broker verb=kmsg.open arguments={{}} uid={uid} pid=")
    assert lines[0].endswith(" result=ok")


@pytest.mark.root
def test_gatewarden_gets_symbols(folder: Path, running: subprocess.Popen[str]) -> None:
    """Pins that addresses hidden from the agent (kptr_restrict=1) get names by the broker, in as many calls as needed."""
    assert Path("/proc/sys/kernel/kptr_restrict").read_text() == "1\n"
    address, name = _a_function()
    result = as_user("gatewarden", KSYM, folder / "broker.sock", address, address + 1)
    own, symbols = result.stdout.splitlines()
    assert own.startswith("own: kernel addresses are hidden")
    assert symbols == str({address: name, address + 1: f"{name}+0x1"})
    assert end(running).count("verb=ksym") == 3


def _a_function() -> tuple[int, str]:
    """Give a function whose address no other symbol shares."""
    with kallsyms.PATH.open() as lines:
        rows = [line.split() for line in lines]
    taken = [row[0] for row in rows]
    row = next(row for row in rows if row[2] == "schedule_timeout" and taken.count(row[0]) == 1)
    return int(row[0], 16), row[2]


@pytest.mark.root
def test_everybody_else_is_refused(folder: Path, running: subprocess.Popen[str]) -> None:
    """Pins that root, nobody and the workloads' user are refused by name, and that each try is journaled as a warning."""
    with pytest.raises(Refused, match=r"serves user gatewarden only, not uid 0 \(root can do all this itself\)"):
        unix.ask(folder / "broker.sock", {"verb": "kmsg.open"})
    for uid in ("65534", "gatewarden-work"):
        assert "serves user gatewarden only, not uid" in as_user(uid, ASK, folder / "broker.sock").stderr
    lines = end(running).splitlines()
    assert len(lines) == 3
    assert all(line.startswith("<4>broker verb=? ") for line in lines)


@pytest.mark.root
def test_ends_by_signal_and_takes_its_socket_along(folder: Path, running: subprocess.Popen[str]) -> None:
    """Pins a clean end by SIGTERM; without --idle-exit it does not end by itself."""
    assert oct((folder / "broker.sock").stat().st_mode) == "0o140660"
    assert end(running) == ""
    assert running.returncode == 0
    assert not (folder / "broker.sock").exists()


def test_ends_when_idle(folder: Path) -> None:
    """Pins --idle-exit: it ends after that time without a request, but not under a client that is being served."""
    child = start(folder, "--idle-exit", "0.4")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(folder / "broker.sock"))
        time.sleep(0.8)
        assert child.poll() is None
    _, text = child.communicate(timeout=10)
    assert (child.returncode, text) == (0, "")
    with pytest.raises(NotRunning):
        unix.ask(folder / "broker.sock", {"verb": "kmsg.open"})


def test_takes_systemds_socket(folder: Path) -> None:
    """Pins socket activation (LISTEN_PID, LISTEN_FDS, fd 3): the given socket is served, and no file is bound or removed."""
    path = folder / "given.sock"
    with socket.socket(socket.AF_UNIX) as given_socket:
        given_socket.bind(str(path))
        given_socket.listen()
        fd = given_socket.fileno()
        command = [sys.executable, "-c", SYSTEMD, str(fd), str(folder / "agent.toml")]
        child = subprocess.Popen(command, pass_fds=[fd], stderr=subprocess.PIPE, text=True)
        with pytest.raises((Refused, BadRequest)):  # whoever runs the tests is not gatewarden, or has sent rubbish
            unix.ask(path, {"verb": "rubbish"}, timeout_s=20)
        child.communicate(timeout=10)
    assert child.returncode == 0
    assert path.exists()
    assert not (folder / "broker.sock").exists()


@pytest.mark.root
def test_a_second_one_is_told_about_the_first(folder: Path, running: subprocess.Popen[str]) -> None:
    """Pins exit code 2 and one line naming the process that listens already; likewise for a file that is no TOML."""
    second = start(folder)
    _, text = second.communicate(timeout=20)
    assert (second.returncode, text.count("\n")) == (2, 1)
    assert f"process {running.pid} already listens here" in text
    (folder / "agent.toml").write_text("rubbish")
    third = start(folder)
    _, text = third.communicate(timeout=20)
    assert (third.returncode, text.count("Traceback")) == (2, 0)


@pytest.mark.root
def test_an_idle_broker_sleeps(folder: Path, running: subprocess.Popen[str]) -> None:
    """Pins that nothing wakes it without a request: no context switch of its process in a second."""
    status = Path(f"/proc/{running.pid}/status")
    time.sleep(0.3)
    before = _switches(status)
    time.sleep(1)
    assert _switches(status) - before <= 1
    assert _answers(folder / "broker.sock")


def _switches(status: Path) -> int:
    return sum(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("voluntary"))


def ask(line: bytes, journal: MemoryJournal | None = None) -> Data:
    """Give the reply that the user gatewarden gets."""
    caller = Credentials(1, pwd.getpwnam("gatewarden").pw_uid, 1)
    reply = broker.answer(line, caller, journal or MemoryJournal())
    if reply.fd is not None:
        os.close(reply.fd)
    answer: Data = json.loads(reply.data)
    return answer


@pytest.mark.root
@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ({"verb": "mount"}, "unknown verb 'mount', known: kmsg.open, ksym"),
        ({"verb": "kmsg.open", "path": "/etc/shadow"}, "kmsg.open: takes exactly the arguments: none"),
        ({"verb": "ksym"}, "ksym: takes exactly the arguments: addresses"),
        ({"verb": "ksym", "addresses": []}, "a list of 1 to 256 integers"),
        ({"verb": "ksym", "addresses": [1] * 257}, "a list of 1 to 256 integers"),
        ({"verb": "ksym", "addresses": "0xffff"}, "a list of 1 to 256 integers"),
        ({"verb": "ksym", "addresses": [True]}, "only integers from 1 to"),
        ({"verb": "ksym", "addresses": [1 << 64]}, "only integers from 1 to"),
        ({"verb": "ksym", "addresses": [1, "2"]}, "only integers from 1 to"),
    ],
)
def test_arguments_are_checked(request_: Data, why: str) -> None:
    """Pins what each verb takes, and that a wrong request is code 2 and journaled."""
    journal = MemoryJournal()
    answer = ask(json.dumps(request_).encode(), journal)
    assert (answer["ok"], answer["code"]) == (False, 2)
    assert why in str(answer["error"])
    assert [(severity, fields["verb"]) for severity, _, fields in journal.lines] == [("warning", request_["verb"])]
    assert why in str(journal.lines[0][2]["result"])


@pytest.mark.root
def test_a_fault_of_ours_is_journaled_and_answered() -> None:
    """Pins that a verb which fails in a way that nobody foresaw leaves a line in the journal, and its caller an answer."""
    journal = MemoryJournal()
    verbs = {"ksym": Verb({}, lambda: Given(1 // 0))}
    reply = broker.answer(b'{"verb": "ksym"}', Credentials(1, _gatewarden(), 1), journal, verbs)
    answer = json.loads(reply.data)
    assert (answer["ok"], answer["code"]) == (False, 4)
    assert "internal error: ZeroDivisionError" in answer["error"]
    assert [(severity, fields["verb"]) for severity, _, fields in journal.lines] == [("error", "ksym")]


@pytest.mark.root
def test_what_cannot_be_journaled_is_withheld() -> None:
    """Pins that a broker whose journal is gone hands nothing out, and leaks no descriptor."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    answer = ask(b'{"verb": "kmsg.open"}', MemoryJournal(OSError(32, "Broken pipe")))
    assert answer == {"ok": False, "error": "the call cannot be journaled: Broken pipe", "code": 4}
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(line=st.binary() | st.text().map(lambda text: json.dumps({"verb": "ksym", "addresses": text}).encode()))
def test_any_line_is_answered(line: bytes) -> None:
    """Pins that no request of a permitted caller raises, and each is journaled once."""
    journal = MemoryJournal()
    uid = _gatewarden()
    answer = json.loads(broker.answer(line, Credentials(1, uid, 1), journal).data)
    assert answer["ok"] is False
    assert len(journal.lines) == 1


def _gatewarden() -> int:
    try:
        return pwd.getpwnam("gatewarden").pw_uid
    except KeyError:
        return 1  # then the answer is that the user does not exist
