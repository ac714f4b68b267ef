"""Listening on our unix sockets: the file and its rights, what systemd hands over, and who is calling."""

from __future__ import annotations

import contextlib
import grp
import os
import socket
import stat
import struct
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from agent.errors import GatewardenError
from agent.linux import wire
from agent.linux.loop import EpollLoop
from agent.linux.peer import Listener, Reply

GROUP = "gatewarden"
MODE = 0o660
BACKLOG = 128
_UCRED = struct.Struct("=iII")
_FIRST_FD = 3  # SD_LISTEN_FDS_START, sd_listen_fds(3)


class Credentials(NamedTuple):
    """Who called connect(2), as the kernel noted it then (SO_PEERCRED, unix(7))."""

    pid: int
    uid: int
    gid: int


Handler = Callable[[bytes, Credentials], Reply]


def credentials(sock: socket.socket) -> Credentials:
    """Ask the kernel who is at the other end of `sock`."""
    return Credentials(*_UCRED.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)))


def listen(path: Path) -> socket.socket:
    """Bind and listen on `path`: mode 0660, and group `gatewarden` where it exists and we may give files to it.

    The file that a dead process left is replaced. Raises GatewardenError if a live one listens there (with its pid), if
    something else lies there, or if the kernel refuses.
    """
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear(path)
        before = os.umask(0o777 & ~MODE)
        try:
            sock.bind(str(path))
        finally:
            os.umask(before)
        # Whoever owns the folder may have put a link in the place of the socket by now: do not follow it.
        with contextlib.suppress(KeyError, PermissionError):
            os.chown(path, -1, grp.getgrnam(GROUP).gr_gid, follow_symlinks=False)
        sock.listen(BACKLOG)  # only now can anybody connect: the rights are never looser than they should be
    except OSError as error:
        sock.close()
        raise GatewardenError(f"{path}: cannot listen: {error.strerror or error}") from error
    except GatewardenError:
        sock.close()
        raise
    return sock


def inherited() -> socket.socket | None:
    """Give the listening socket that systemd passed to this very process (LISTEN_PID, LISTEN_FDS), if it passed one."""
    ours = os.environ.pop("LISTEN_PID", "") == str(os.getpid())
    count = os.environ.pop("LISTEN_FDS", "")
    os.environ.pop("LISTEN_FDNAMES", None)
    if not ours or count != "1":
        return None
    os.set_inheritable(_FIRST_FD, False)
    return socket.socket(fileno=_FIRST_FD)


class _Lines:
    """`peer.Service` for one line of JSON in, one out."""

    terminator = b"\n"
    limit = wire.REQUEST_BYTES

    def __init__(self, handler: Handler) -> None:
        self._handler = handler

    def handle(self, request: bytes, sock: socket.socket) -> Reply:
        return self._handler(request, credentials(sock))

    def refuse(self, error: GatewardenError) -> bytes:
        return wire.failure(error)


def serve(loop: EpollLoop, sock: socket.socket, handler: Handler, name: str) -> Listener:
    """Answer each request line on `sock` with `handler(line, credentials)`; see `agent.linux.peer` for the limits."""
    return Listener(loop, sock, _Lines(handler), name)


def _clear(path: Path) -> None:
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise GatewardenError(f"{path}: is in the way and is no socket: remove it")
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
            pid = credentials(probe).pid
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except BlockingIOError:
            pid = 0
    raise GatewardenError(f"{path}: process {pid or '(busy)'} already listens here: stop it, or use another runtime_dir")
