"""The asking side of our unix sockets, blocking and light: what `agentctl` and the broker's client use.

Every error is one of ours: NotRunning (nobody answers, with the remedy), Busy (somebody is there and has no place for us),
Refused (no permission, or the other side says no), BadRequest (the other side finds the request wrong, or answers rubbish).
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import time
from pathlib import Path

from agent.errors import BadRequest, Busy, NotRunning, Refused
from agent.linux import wire
from agent.model import Data, Json

CHUNK = 64 * 1024
MOST_FDS = 4  # of one message; the kernel closes what does not fit
PATIENCE_S = 1.0
_PAUSE_S, _LONGEST_S = 0.02, 0.2  # between two tries: doubled each time
_INT = 4


def ask(path: Path, request: Data, timeout_s: float = 5.0) -> Json:
    """Send one request and give its result; takes at most `timeout_s` in all. Raises NotRunning, Busy, Refused, BadRequest."""
    result, fds = _exchange(path, request, timeout_s)
    _close(fds)
    return result


def ask_patiently(path: Path, request: Data, timeout_s: float = 5.0) -> Json:
    """Like `ask`, for a request that may be made twice: who is Busy is asked again for up to PATIENCE_S."""
    end, pause = time.monotonic() + PATIENCE_S, _PAUSE_S
    while True:
        try:
            return ask(path, request, timeout_s)
        except Busy:
            if time.monotonic() + pause > end:
                raise
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_S)


def ask_fd(path: Path, request: Data, timeout_s: float = 5.0) -> tuple[Json, int]:
    """Like `ask` for a verb that hands over a file descriptor (SCM_RIGHTS); the caller closes it."""
    result, fd = ask_maybe_fd(path, request, timeout_s)
    if fd is None:
        raise BadRequest(f"{path}: 0 file descriptors came with the reply, want 1")
    return result, fd


def ask_maybe_fd(path: Path, request: Data, timeout_s: float = 5.0) -> tuple[Json, int | None]:
    """Like `ask_fd` for a verb whose result says why, if it hands over none."""
    result, fds = _exchange(path, request, timeout_s)
    if len(fds) > 1:
        _close(fds)
        raise BadRequest(f"{path}: {len(fds)} file descriptors came with the reply, want 1")
    return result, fds[0] if fds else None


def _exchange(path: Path, request: Data, timeout_s: float) -> tuple[Json, list[int]]:
    fds: list[int] = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            line = _converse(sock, path, wire.encode(request), time.monotonic() + timeout_s, fds)
        return wire.result(line), fds
    except BaseException as error:
        _close(fds)
        if isinstance(error, TimeoutError):
            raise NotRunning(f"{path}: no answer within {timeout_s:g} s") from error
        if isinstance(error, OSError):
            raise _translated(path, error) from error
        raise


def _converse(sock: socket.socket, path: Path, line: bytes, deadline: float, fds: list[int]) -> bytes:
    sock.settimeout(_left(deadline))
    sock.connect(str(path))
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # cut off in mid-request: the reply says why
        sock.sendall(line)
    reply = bytearray()
    while not reply.endswith(b"\n"):
        sock.settimeout(_left(deadline))
        chunk = _received(sock, fds)
        if not chunk:
            raise ConnectionResetError(errno.ECONNRESET, "no whole reply")
        reply += chunk
        if len(reply) > wire.REPLY_BYTES:
            raise BadRequest(f"{path}: a reply of more than {wire.REPLY_BYTES} bytes")
    return bytes(reply)


def _received(sock: socket.socket, fds: list[int]) -> bytes:
    """Give the next bytes, add the descriptors that came along to `fds` (socket.recv_fds drops its flags before 3.13)."""
    chunk, ancillary, _flags, _address = sock.recvmsg(CHUNK, socket.CMSG_SPACE(MOST_FDS * _INT), socket.MSG_CMSG_CLOEXEC)
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds += memoryview(data[: len(data) // _INT * _INT]).cast("i")
    return chunk


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _translated(path: Path, error: OSError) -> NotRunning | Busy | Refused:
    if isinstance(error, PermissionError):
        return Refused(f"{path}: permission denied: only root and members of its group may connect")
    if isinstance(error, FileNotFoundError):
        return NotRunning(f"{path}: no such socket: is it started, with this --config?")
    if isinstance(error, ConnectionRefusedError):
        return NotRunning(f"{path}: nobody listens: its process ended")
    if isinstance(error, BlockingIOError | ConnectionResetError | BrokenPipeError):
        full = isinstance(error, BlockingIOError)
        what = "its queue is full" if full else "it closed the connection without a whole reply"
        return Busy(f"{path}: {what}: its process is busy with other clients, or ended just now; try again")
    return NotRunning(f"{path}: {error.strerror or error}")


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)
