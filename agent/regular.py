"""Regular files and nothing else, without ever waiting: whoever can write to a folder can put a FIFO, a device or a link there.

A FIFO holds up whoever opens it, a device may do anything when it is opened, and some files of /proc and tracefs look regular
but wait at the first read: hence look, then open with O_NONBLOCK, then look again.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

_CHUNK = 64 * 1024
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def odd(path: Path) -> str:
    """Say what lies at `path` itself if it is no regular file, as `a FIFO`; empty if it is one, or nothing. Raises OSError."""
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return ""
    return "" if stat.S_ISREG(mode) else _KINDS.get(stat.S_IFMT(mode), "no file")


def require(path: Path) -> None:
    """Make sure that `path` leads (through links) to a regular file. Raises OSError whose strerror says what it is instead."""
    _judge(path, path.stat().st_mode)


def read(path: Path, limit: int) -> bytes:
    """Give the first `limit` bytes of the regular file that `path` leads to. Never waits for a writer. Raises OSError."""
    require(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        _judge(path, os.fstat(fd).st_mode)
        parts: list[bytes] = []
        while limit > 0 and (part := _some(fd, limit, path)):
            parts.append(part)
            limit -= len(part)
        return b"".join(parts)
    finally:
        os.close(fd)


def _some(fd: int, limit: int, path: Path) -> bytes:
    try:
        return os.read(fd, min(limit, _CHUNK))
    except BlockingIOError as error:  # /proc/kmsg, tracing/trace_pipe
        raise OSError(errno.EAGAIN, "its contents do not come without waiting", str(path)) from error


def _judge(path: Path, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"{_KINDS.get(stat.S_IFMT(mode), 'no file')}, not a regular file", str(path))
