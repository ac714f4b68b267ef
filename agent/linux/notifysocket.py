"""One workload's NOTIFY_SOCKET: datagrams, with the kernel's word on who sent them (SCM_CREDENTIALS); size and rate bounded."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent.errors import GatewardenError
from agent.linux.loop import EpollLoop

ROUND = 32  # datagrams in one go; who sends more waits, in its own send(2)
REST_S = 0.05
_UCRED = struct.Struct("=iII")
_MOST_FDS = 253  # SCM_MAX_FD
_INT = 4
_ANCILLARY = socket.CMSG_SPACE(_UCRED.size) + socket.CMSG_SPACE(_MOST_FDS * _INT)


class Datagram(NamedTuple):
    """What came; `pid` is 0 if the kernel does not name the sender, `whole` is False if it was cut off at the limit.

    Whoever takes `fds` closes them.
    """

    data: bytes
    pid: int
    fds: list[int]
    whole: bool


class NotifySocket:
    """Bound to `path` until `close`; `handler` gets each datagram on the loop."""

    def __init__(self, loop: EpollLoop, path: Path, limit: int, handler: Callable[[Datagram], None]) -> None:
        """Replace whatever socket an earlier keeper left at `path`. Raises GatewardenError."""
        self.path = path
        self._loop = loop
        self._limit = limit
        self._handler = handler
        self._bind()

    def renew(self) -> None:
        """Bind anew if somebody removed or replaced it: workloads have the rights to. Raises GatewardenError."""
        if self._id() != self._bound:
            self._loop.forget(self._sock.fileno())
            self._sock.close()
            self._bind()

    def close(self) -> None:
        """Take it away."""
        self._loop.forget(self._sock.fileno())
        self._sock.close()
        with contextlib.suppress(OSError):  # something else lies there by now
            self.path.unlink(missing_ok=True)

    def drain(self) -> None:
        """Handle what has come, at most a round of it."""
        for _ in range(ROUND):
            try:
                datagram = self._receive()
            except BlockingIOError:
                return
            try:
                self._handler(datagram)
            finally:
                for fd in datagram.fds:
                    with contextlib.suppress(OSError):
                        os.close(fd)
        self._loop.forget(self._sock.fileno())
        self._loop.once(REST_S, self._listen, f"{self.path.name}.rest")

    def _bind(self) -> None:
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            self.path.unlink(missing_ok=True)
            before = os.umask(0o177)
            try:
                self._sock.bind(str(self.path))
            finally:
                os.umask(before)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        except OSError as error:
            self._sock.close()
            raise GatewardenError(f"{self.path}: cannot bind: {error.strerror or error}") from error
        self._bound = self._id()
        self._listen()

    def _id(self) -> tuple[int, int] | None:
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            return found.st_dev, found.st_ino
        return None

    def _listen(self) -> None:
        if self._sock.fileno() >= 0:
            self._loop.on_readable(self._sock.fileno(), self.drain, self.path.name)

    def _receive(self) -> Datagram:
        data, ancillary, flags, _address = self._sock.recvmsg(self._limit + 1, _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
        pid, fds = 0, list[int]()
        for level, kind, block in ancillary:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_CREDENTIALS) and len(block) >= _UCRED.size:
                pid = _UCRED.unpack_from(block)[0]
            elif (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                fds += memoryview(block[: len(block) // _INT * _INT]).cast("i")
        return Datagram(data, pid, fds, not flags & socket.MSG_TRUNC and len(data) <= self._limit)
