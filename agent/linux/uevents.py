"""What the kernel tells of devices as they come and go (NETLINK_KOBJECT_UEVENT), which any user may hear.

Format: `ACTION@DEVPATH`, then `KEY=value`, each ended by a NUL (lib/kobject_uevent.c). The kernel's own group is heard, and not
that of udev, which takes a daemon. Only messages of the kernel itself count (sender's port 0).
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import NamedTuple

from agent.ports import Loop

_NETLINK_KOBJECT_UEVENT = 15
_KERNEL_GROUP = 1
_CHUNK = 8192  # UEVENT_BUFFER_SIZE is 2048
_AT_ONCE = 64


class Uevent(NamedTuple):
    """One device that came (`add`) or went (`remove`)."""

    action: str
    path: str
    subsystem: str
    devtype: str


def parse(message: bytes) -> Uevent | None:
    """Read one message; None for one that is not of the kernel's form."""
    head, *rows = message.decode("utf-8", "backslashreplace").split("\0")
    if "@" not in head:
        return None
    found = dict(row.split("=", 1) for row in rows if "=" in row)
    return Uevent(found.get("ACTION", ""), found.get("DEVPATH", ""), found.get("SUBSYSTEM", ""), found.get("DEVTYPE", ""))


class Uevents:
    """Hears them on the loop; `lost()` is called when the kernel dropped some."""

    def __init__(self, loop: Loop, heard: Callable[[Uevent], None], lost: Callable[[], None]) -> None:
        """Listen. Raises OSError where that is not allowed."""
        self._loop, self._heard, self._lost = loop, heard, lost
        kind = socket.SOCK_RAW | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
        self._sock = socket.socket(socket.AF_NETLINK, kind, _NETLINK_KOBJECT_UEVENT)
        try:
            self._sock.bind((0, _KERNEL_GROUP))
        except OSError:
            self._sock.close()
            raise
        loop.on_readable(self._sock.fileno(), self._read, "uevents")

    def close(self) -> None:
        """Hear no more."""
        self._loop.forget(self._sock.fileno())
        self._sock.close()

    def _read(self) -> None:
        for _ in range(_AT_ONCE):
            try:
                message, (sender, _group) = self._sock.recvfrom(_CHUNK)
            except BlockingIOError:
                return
            except OSError:  # ENOBUFS
                self._lost()
                return
            if sender == 0 and (found := parse(message)) is not None:
                self._heard(found)
