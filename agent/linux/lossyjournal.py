"""Lines for people that never make the writer wait: what nobody takes at once is counted and left out.

The keeper shares stderr with its workloads; if one of them fills the pipe, or journald stands still, the keeper goes on.
"""

from __future__ import annotations

import os
import select
import socket
import stat
from collections.abc import Mapping

from agent.model import Json, Severity

_LEVELS: Mapping[Severity, int] = {"critical": 2, "error": 3, "warning": 4, "info": 6}
_LINE = 1000
_AGAIN = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_PIPE = 4096  # PIPE_BUF: written whole or not at all


class LossyJournal:
    """`ports.Journal` on a descriptor; never raises, never blocks."""

    def __init__(self, fd: int = 2) -> None:
        """Find the way to write to `fd` without waiting that changes nothing for those who share it (O_NONBLOCK would)."""
        self.lost = 0
        self._fd = fd
        self._opened = False
        self._sock: socket.socket | None = None
        try:
            if stat.S_ISSOCK(os.fstat(fd).st_mode):
                self._sock = socket.socket(fileno=os.dup(fd))
            else:
                self._fd = os.open(f"/proc/self/fd/{fd}", _AGAIN)
                self._opened = True
        except OSError:
            self._fd = fd  # not ours to open again (another user's terminal): poll(2) has to do

    def line(self, severity: Severity, message: str, fields: Mapping[str, Json]) -> None:
        """Write one line with its priority in front (sd-daemon(3)), if it is taken at once."""
        words = [message, *(f"{key}={value}" for key, value in fields.items())]
        if self.lost:
            words.append(f"lines_lost={self.lost}")
        text = "".join(char if char.isprintable() else " " for char in " ".join(words)[:_LINE])
        block = f"<{_LEVELS[severity]}>{text}\n".encode(errors="replace")[:_PIPE]
        try:
            self._write(block)
            self.lost = 0
        except OSError:
            self.lost += 1

    def close(self) -> None:
        """Give back what was opened to write."""
        if self._sock is not None:
            self._sock.close()
        elif self._opened:
            os.close(self._fd)

    def _write(self, block: bytes) -> None:
        if self._sock is not None:
            self._sock.send(block, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            return
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        if not any(mask & select.POLLOUT for _fd, mask in poll.poll(0)):
            raise BlockingIOError
        os.write(self._fd, block)
