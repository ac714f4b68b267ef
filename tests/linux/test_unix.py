"""Our unix sockets: good clients, bad clients, the file, the credentials, the descriptors. All real."""

from __future__ import annotations

import contextlib
import errno
import grp
import json
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.errors import BadRequest, Busy, GatewardenError, NotRunning, Refused
from agent.linux import unix, unixserver, wire
from agent.linux.loop import EpollLoop
from agent.linux.peer import CLIENTS, DEADLINE_S, Listener, Reply
from agent.linux.unixserver import Credentials

BIG = "x" * 1_000_000
SOON_S = DEADLINE_S / 2  # a good client is served within this (on a busy machine, too): it waits for no bad one's end


def handle(line: bytes, caller: Credentials) -> Reply:
    """Answer a few verbs as a daemon would."""
    try:
        verb, arguments = wire.request(line)
    except BadRequest as error:
        return Reply(wire.failure(error))
    if verb == "file":
        fd = os.memfd_create("handed")
        os.pwrite(fd, b"contents", 0)
        return Reply(wire.success("here"), fd)
    if verb == "broken":
        raise KeyError(verb)
    if verb == "no":
        return Reply(wire.failure(Refused("not for you")))
    answers = {"echo": dict(arguments), "who": [caller.pid, caller.uid, caller.gid], "big": BIG}
    return Reply(wire.success(answers[verb]))  # type: ignore[arg-type]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the path of the socket."""
    return tmp_path / "control.sock"


@pytest.fixture
def listener(serving: EpollLoop, listening: Callable[[Callable[[], Listener]], Listener], path: Path) -> Listener:
    """Give a served socket at `path`."""
    return listening(lambda: unixserver.serve(serving, unixserver.listen(path), handle, "control"))


@contextlib.contextmanager
def connected(path: Path, count: int = 1) -> Iterator[list[socket.socket]]:
    """Give `count` raw connections."""
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(count)]
        for sock in socks:
            sock.settimeout(DEADLINE_S + 5)
            sock.connect(str(path))
        yield socks


def whole(sock: socket.socket) -> bytes:
    """Read until the other side closes."""
    parts = []
    with contextlib.suppress(ConnectionResetError):
        while part := sock.recv(65536):
            parts.append(part)
    return b"".join(parts)


def served_soon(path: Path) -> bool:
    """Tell whether a good client gets its answer within `SOON_S`."""
    start = time.monotonic()
    return unix.ask(path, {"verb": "echo", "a": 1}) == {"a": 1} and time.monotonic() - start < SOON_S


def test_asks_and_is_answered(listener: Listener, path: Path) -> None:
    """Pins the round trip of a request, and that a reply of 1 MB arrives whole."""
    assert unix.ask(path, {"verb": "echo", "list": [1, None, "ä"]}) == {"list": [1, None, "ä"]}
    assert unix.ask(path, {"verb": "big"}) == BIG
    assert listener.served == 2


def test_the_handler_knows_who_asks(listener: Listener, path: Path) -> None:
    """Pins that the peer's pid, uid and gid come from the kernel."""
    assert unix.ask(path, {"verb": "who"}) == [os.getpid(), os.geteuid(), os.getegid()]
    assert not listener.cut_off


def test_a_descriptor_comes_with_the_reply(listener: Listener, path: Path) -> None:
    """Pins SCM_RIGHTS: the fd reads what the server wrote, is not inherited, and no copy stays open on either side."""
    before = len(list(Path("/proc/self/fd").iterdir()))
    result, fd = unix.ask_fd(path, {"verb": "file"})
    assert (result, os.pread(fd, 100, 0)) == ("here", b"contents")
    assert not os.get_inheritable(fd)
    os.close(fd)
    assert unix.ask(path, {"verb": "file"}) == "here"
    with pytest.raises(BadRequest, match="0 file descriptors"):
        unix.ask_fd(path, {"verb": "echo"})
    assert served_soon(path)
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 2  # the last exchange may still be closing
    assert listener.served == 4


def test_errors_cross_the_socket(listener: Listener, path: Path, reported: list[str]) -> None:
    """Pins that a refusal and a bad request raise their class here, with the text of the other side; no traceback crosses."""
    with pytest.raises(Refused, match="not for you"):
        unix.ask(path, {"verb": "no"})
    with pytest.raises(BadRequest, match='needs "verb"'):
        unix.ask(path, {"word": 1})
    with pytest.raises(Refused, match="internal error: KeyError"):
        unix.ask(path, {"verb": "broken"})
    assert reported == ["control: KeyError('broken')"]
    assert listener.served == 3


def test_nobody_there(path: Path) -> None:
    """Pins the texts when nothing listens: no socket, a dead one, a process that never answers."""
    with pytest.raises(NotRunning, match="no such socket"):
        unix.ask(path, {"verb": "x"})
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(NotRunning, match="nobody listens"):
        unix.ask(path, {"verb": "x"})
    path.unlink()
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(path))
        silent.listen()
        start = time.monotonic()
        with pytest.raises(NotRunning, match=r"no answer within 0\.2 s"):
            unix.ask(path, {"verb": "x"}, timeout_s=0.2)
        assert time.monotonic() - start < 1


@pytest.mark.parametrize("reply", [b"rubbish\n", b"[]\n", b'{"ok": true}\n', b'{"ok": false, "error": 1}\n', b"\xff\xfe\n"])
def test_a_server_that_answers_rubbish(path: Path, reply: bytes) -> None:
    """Pins that a reply which is none is a BadRequest, whatever its bytes."""
    with pytest.raises(BadRequest):
        _answered_by(path, reply)


def test_a_server_that_breaks_off(path: Path) -> None:
    """Pins that half a reply is no reply, and no sign of a dead process either: it was there."""
    with pytest.raises(Busy, match="without a whole reply"):
        _answered_by(path, b'{"ok": true, "resu')


def _answered_by(path: Path, reply: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()

        def answer() -> None:
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(reply)

        thread = threading.Thread(target=answer)
        thread.start()
        try:
            unix.ask(path, {"verb": "x"})
        finally:
            thread.join()


def test_rubbish_gets_one_error_line(listener: Listener, path: Path) -> None:
    """Pins that bytes which are no request get one error line, then the end; a good client meanwhile is served."""
    with connected(path, 4) as (garbage, deep, half, wrong):
        garbage.sendall(b"\x00\xff\x80 rubbish\n")
        deep.sendall(b"[" * 60_000 + b"\n")
        half.sendall(b'{"verb": "ec')
        half.shutdown(socket.SHUT_WR)
        wrong.sendall(b'["verb"]\n')
        assert served_soon(path)
        for sock in (garbage, deep, half, wrong):
            lines = whole(sock).splitlines()
            assert len(lines) == 1
            assert json.loads(lines[0])["code"] == 2
    assert listener.cut_off == 1  # the half line; the others were answered by the handler


def test_ten_megabytes_are_cut_off(listener: Listener, path: Path) -> None:
    """Pins that a request of 10 MB ends at 64 KiB with one error line, and that our own client shows that line."""
    with connected(path) as (sock,):
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            sock.sendall(b"x" * 10_000_000)
        assert json.loads(whole(sock))["error"] == "a request of more than 65536 bytes"
    with pytest.raises(BadRequest, match="more than 65536 bytes"):
        unix.ask(path, {"verb": "echo", "blob": BIG * 10})
    assert served_soon(path)
    assert listener.cut_off == 2


def test_stalling_clients_are_cut_off(listener: Listener, path: Path) -> None:
    """Pins that 5 s end a half request, a trickled one, and a reply that is not taken; others are served all the while."""
    start = time.monotonic()
    with connected(path, 3) as (silent, trickle, deaf):
        silent.sendall(b'{"verb":')
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(b'{"verb": "big"}\n')
        while listener.cut_off < 3 and time.monotonic() - start < DEADLINE_S + 2:
            with contextlib.suppress(OSError):
                trickle.send(b" ")
            assert served_soon(path)
            time.sleep(0.2)
        assert DEADLINE_S - 0.5 <= time.monotonic() - start < DEADLINE_S + 2
        assert b"no whole request within 5 s" in whole(silent)
        assert b"no whole request within 5 s" in whole(trickle)
        assert len(whole(deaf)) < len(BIG)


def test_a_hundred_connections_starve_nobody(listener: Listener, path: Path) -> None:
    """Pins that idle connections make room for one that asks: at most 16 are kept, the good client is served at once."""
    with connected(path, 100) as socks:
        assert served_soon(path)
        assert listener.cut_off >= 100 - CLIENTS
        closed = 0
        for sock in socks:
            sock.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                closed += sock.recv(1) == b""
        assert closed >= 100 - CLIENTS
        assert served_soon(path)


@contextlib.contextmanager
def deaf(path: Path, count: int) -> Iterator[list[socket.socket]]:
    """Give `count` clients that ask for 1 MB and take none of it."""
    with connected(path, count) as socks:
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            sock.sendall(b'{"verb": "big"}\n')
        time.sleep(0.2)
        yield socks


def test_those_who_take_no_reply_make_room_too(listener: Listener, path: Path) -> None:
    """Pins that 16 clients that stall on their replies, coming again and again, lock nobody out: served within 1 s."""
    with contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(deaf(path, CLIENTS))
            start = time.monotonic()
            assert unix.ask(path, {"verb": "echo", "a": 1}) == {"a": 1}
            assert time.monotonic() - start < 1
    assert listener.cut_off >= 2 * CLIENTS


def test_a_reply_that_is_being_taken_is_not_cut_off_before_one_that_is_not(listener: Listener, path: Path) -> None:
    """Pins who makes room: the one that dawdles longest over its request or its reply, whichever it is."""
    with deaf(path, 1), connected(path, CLIENTS - 2), connected(path) as (good,):
        good.sendall(b'{"verb": "big"}\n')
        assert good.recv(1000)
        with connected(path, CLIENTS - 1):
            time.sleep(0.2)
            assert listener.cut_off == CLIENTS - 1
            assert len(whole(good)) > len(BIG) - 1000


def test_a_full_server_is_busy_not_dead(path: Path) -> None:
    """Pins that a connection that is reset, or finds the queue full, is Busy; `ask_patiently` comes again within 1 s."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(0)
        turned_away = 0

        def reset(times: int) -> None:
            nonlocal turned_away
            for _ in range(times):
                peer, _ = server.accept()
                peer.close()  # with its request unread: ECONNRESET, or EPIPE if it comes first
                turned_away += 1
            peer, _ = server.accept()
            with peer:
                peer.recv(1000)
                peer.sendall(b'{"ok": true, "result": 5}\n')

        thread = threading.Thread(target=reset, args=(3,))
        thread.start()
        with pytest.raises(Busy, match="busy with other clients"):
            unix.ask(path, {"verb": "x"})
        assert unix.ask_patiently(path, {"verb": "x"}) == 5
        thread.join()
        assert turned_away == 3
        with connected(path, 1):  # takes the one place of the queue
            start = time.monotonic()
            with pytest.raises(Busy, match="queue is full"):
                unix.ask_patiently(path, {"verb": "x"})
            assert 0.5 < time.monotonic() - start < 2


def test_a_half_closed_slow_reader_does_not_spin_the_loop(listener: Listener, serving: EpollLoop, path: Path) -> None:
    """Pins that a client which shuts its sending side and reads late costs no wake-ups while it does not read."""
    with connected(path) as (sock,):
        sock.sendall(b'{"verb": "big"}\n')
        sock.shutdown(socket.SHUT_WR)
        time.sleep(0.1)
        before = serving.wakeups
        time.sleep(0.3)
        assert serving.wakeups - before <= 1
        assert len(whole(sock)) > len(BIG)
    assert listener.cut_off == 0


def test_out_of_descriptors_it_rests(serving: EpollLoop, path: Path, reported: list[str]) -> None:
    """Pins that accept(2) failing with EMFILE neither spins nor ends the server, which accepts again a second later."""
    program = f"""
import os, resource, sys
from pathlib import Path
from agent.linux import unixserver, wire
from agent.linux.loop import EpollLoop
from agent.linux.peer import Reply
loop = EpollLoop(lambda name, error: print("reported", error.errno, flush=True))
unixserver.serve(loop, unixserver.listen(Path({str(path)!r})), lambda line, who: Reply(wire.success(loop.wakeups)), "t")
loop.once(0.5, lambda: [os.close(fd) for fd in spare], "spare")
limit = os.dup(0) + 3
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
spare = []
try:
    while True:
        spare.append(os.dup(0))
except OSError:
    pass
print("up", flush=True)
loop.run()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as child:
        try:
            assert child.stdout
            assert child.stdout.readline() == "up\n"
            wakeups = unix.ask(path, {"verb": "x"})
            assert child.stdout.readline() == f"reported {errno.EMFILE}\n"
            assert isinstance(wakeups, int)
            assert wakeups < 10
        finally:
            child.kill()
    assert not reported
    assert serving.wakeups < 10


def test_the_file_is_for_root_and_the_group(path: Path) -> None:
    """Pins mode 0660 and group gatewarden (where it exists and we may give it), whatever the umask."""
    before = os.umask(0)
    try:
        with unixserver.listen(path):
            facts = path.stat()
            assert stat.S_IMODE(facts.st_mode) == 0o660
            if os.geteuid() == 0:
                with contextlib.suppress(KeyError):
                    assert facts.st_gid == grp.getgrnam("gatewarden").gr_gid
    finally:
        os.umask(before)


def test_the_file_of_a_dead_process_is_replaced(path: Path) -> None:
    """Pins that what a killed process left behind does not keep the next one from starting."""
    program = "import sys, time; from pathlib import Path; from agent.linux import unixserver\n"
    program += "sock = unixserver.listen(Path(sys.argv[1])); print('up', flush=True); time.sleep(60)"
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE)
    assert child.stdout
    assert child.stdout.readline() == b"up\n"
    with pytest.raises(GatewardenError, match=f"process {child.pid} already listens here"):
        unixserver.listen(path)
    child.kill()
    child.communicate()
    assert path.is_socket()
    unixserver.listen(path).close()


def test_what_is_in_the_way_is_named(tmp_path: Path) -> None:
    """Pins that a file is not removed, and that a missing folder or an overlong path is an error of ours."""
    file = tmp_path / "file"
    file.write_text("precious")
    with pytest.raises(GatewardenError, match="is no socket"):
        unixserver.listen(file)
    assert file.read_text() == "precious"
    with pytest.raises(GatewardenError, match="cannot listen: No such file"):
        unixserver.listen(tmp_path / "none" / "x.sock")
    with pytest.raises(GatewardenError, match="cannot listen: AF_UNIX path too long"):
        unixserver.listen(tmp_path / ("x" * 120))


@pytest.mark.root
def test_no_permission_is_a_refusal(listener: Listener, path: Path) -> None:
    """Pins the text for a user who is not in the group."""
    program = "import sys; from pathlib import Path; from agent.linux.unix import ask\nask(Path(sys.argv[1]), {'verb': 'who'})"
    for folder in [path.parent, *path.parent.parents][:3]:
        folder.chmod(folder.stat().st_mode | 0o111)
    nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    result = subprocess.run([*nobody, sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert "agent.errors.Refused" in result.stderr
    assert "permission denied" in result.stderr
    assert listener.served == 0


def test_the_client_is_light() -> None:
    """Pins that asking loads no pydantic, asyncio, logging or subprocess: `agentctl status` pays for it each time."""
    program = "import sys, agent.linux.unix; print([name for name in sys.argv[1:] if name in sys.modules])"
    heavy = ["pydantic", "asyncio", "logging", "subprocess", "ssl", "tomllib"]
    result = subprocess.run([sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True)
    assert result.stdout == "[]\n"
