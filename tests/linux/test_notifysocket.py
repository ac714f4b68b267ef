"""The notify socket of a workload: who sent it, what came along, what is too much."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.errors import GatewardenError
from agent.linux.loop import EpollLoop
from agent.linux.notifysocket import ROUND, Datagram, NotifySocket
from tests.keepers import open_fds

LIMIT = 100


class Hearing:
    """A socket on a loop that runs for as long as it is told."""

    def __init__(self, path: Path) -> None:
        self.heard: list[Datagram] = []
        self.errors: list[Exception] = []
        self.loop = EpollLoop(lambda _name, error: self.errors.append(error))
        self.sock = NotifySocket(self.loop, path, LIMIT, self.heard.append)

    def run(self, seconds: float) -> None:
        """Let the loop run."""
        self.loop.once(seconds, self.loop.stop, "test")
        self.loop.run()


@pytest.fixture
def hearing(tmp_path: Path) -> Iterator[Hearing]:
    """Give one."""
    found = Hearing(tmp_path / "n")
    yield found
    found.sock.close()
    found.loop.close()


@pytest.fixture
def sender(hearing: Hearing) -> Iterator[socket.socket]:
    """Give a socket that is connected to it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.connect(str(hearing.sock.path))
        yield sock


def test_the_kernel_says_who_sent_it(hearing: Hearing, sender: socket.socket) -> None:
    """Pins pid, mode of the file, and that a datagram at the limit is whole, one byte more is not."""
    assert hearing.sock.path.stat().st_mode & 0o777 == 0o600
    for size in (0, LIMIT, LIMIT + 1, 50_000):
        sender.send(b"x" * size)
    hearing.run(0.1)
    assert [(len(one.data), one.whole) for one in hearing.heard] == [
        (0, True),
        (LIMIT, True),
        (LIMIT + 1, False),
        (LIMIT + 1, False),
    ]
    assert {one.pid for one in hearing.heard} == {os.getpid()}


def test_descriptors_that_nobody_takes_are_closed(hearing: Hearing, sender: socket.socket) -> None:
    """Pins that no datagram leaves a descriptor open, 253 of them included."""
    before = open_fds()
    sender.sendmsg([b"a"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 253))])
    hearing.run(0.1)
    assert len(hearing.heard[0].fds) == 253
    assert open_fds() == before


def test_a_flood_is_taken_in_rounds(hearing: Hearing, sender: socket.socket) -> None:
    """Pins that after a full round the socket rests, and that nothing is lost by that."""
    sender.setblocking(False)
    sent = 0

    def fill() -> None:
        nonlocal sent
        try:
            while sent < 3 * ROUND:
                sender.send(b"x")
                sent += 1
        except BlockingIOError:
            pass

    hearing.loop.every(0.001, fill, "test")
    hearing.run(1.0)
    assert len(hearing.heard) == sent == 3 * ROUND
    assert not hearing.errors


def test_a_handler_that_fails_ends_nothing(tmp_path: Path) -> None:
    """Pins that the next datagram is heard, and the descriptors of the first are closed."""
    found = Hearing(tmp_path / "n")
    found.sock.close()
    heard: list[bytes] = []

    def fail_once(datagram: Datagram) -> None:
        heard.append(datagram.data)
        if len(heard) == 1:
            raise ValueError(datagram.data)

    sock = NotifySocket(found.loop, tmp_path / "n", LIMIT, fail_once)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b"1", str(tmp_path / "n"))
        sender.sendto(b"2", str(tmp_path / "n"))
    found.run(0.1)
    assert (heard, len(found.errors)) == ([b"1", b"2"], 1)
    sock.close()
    found.loop.close()


def test_where_it_cannot_be_bound(tmp_path: Path) -> None:
    """Pins the error of ours, for a folder that is missing and a name that is too long."""
    loop = EpollLoop(lambda _name, _error: None)
    for path in (tmp_path / "missing/n", tmp_path / ("n" * 120)):
        with pytest.raises(GatewardenError, match="cannot bind"):
            NotifySocket(loop, path, LIMIT, lambda _datagram: None)
    loop.close()
