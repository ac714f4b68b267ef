"""The pretimeout as the noop governor tells it: a line in the kernel's log, read by an fd on /dev/kmsg.

Drivers with another way are in `agent.linux.watchdog`: a readable fd, or a panic that pstore keeps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from agent.linux.kmsg import KmsgReader
from agent.ports import Loop

_LINE = re.compile(r"\A(?:watchdog: )?(watchdog\d{1,3}): pretimeout event\Z")  # drivers/watchdog/pretimeout_noop.c


class PretimeoutLog:
    """Calls `told(device)` for each pretimeout from now on; every kernel line wakes it, and there are few."""

    def __init__(self, loop: Loop, fd: int, told: Callable[[str], None]) -> None:
        """Begin at the end of the log; `fd` is ours from now on, and does not block."""
        os.lseek(fd, 0, os.SEEK_END)
        self._loop, self._fd, self._told = loop, fd, told
        self._reader = KmsgReader(fd)
        loop.on_readable(fd, self._read, "kernel log")

    def _read(self) -> None:
        while (record := self._reader.next()) is not None:
            if device := parse(record.text):
                self._told(device)

    def close(self) -> None:
        """Stop reading."""
        self._loop.forget(self._fd)
        os.close(self._fd)


def parse(text: str) -> str:
    """Give the device whose pretimeout the line tells of; empty for any other line."""
    found = _LINE.match(text)
    return found[1] if found else ""
