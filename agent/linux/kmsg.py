r"""The kernel's log: `/dev/kmsg` records (Documentation/ABI/testing/dev-kmsg), and reading them by an fd that is handed in.

A record is `priority,sequence,time,flags[,…];text`, then lines ` KEY=value`; the kernel writes unprintable bytes as \xNN.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

RECORD_BYTES = 8192  # a read never gives more: CONSOLE_EXT_LOG_MAX on older kernels, PRINTK_MESSAGE_MAX (2048) on newer
LIMIT_S = 0.25
PRIORITIES = ("emerg", "alert", "crit", "err", "warning", "notice", "info", "debug")


@dataclass(frozen=True, slots=True)
class KmsgRecord:
    """One message. `t_us` is the kernel's local_clock in µs since boot: near CLOCK_MONOTONIC, not the same."""

    priority: int
    facility: int
    seq: int
    t_us: int
    text: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        """As `dmesg` prints it, with the priority's name."""
        return f"[{self.t_us // 1_000_000:5d}.{self.t_us % 1_000_000:06d}] {PRIORITIES[self.priority]}: {self.text}"


def parse(record: bytes) -> KmsgRecord | None:
    """Read one record; None if it is none."""
    head, found, rest = record.partition(b";")
    fields = head.split(b",")
    if not found or len(fields) < 3 or not all(_is_number(field) for field in fields[:3]):
        return None
    syslog, seq, t_us = (int(field) for field in fields[:3])
    text, *more = rest.decode("utf-8", "backslashreplace").removesuffix("\n").split("\n")
    tags = tuple((key, value) for key, equals, value in (line.strip(" ").partition("=") for line in more) if equals)
    return KmsgRecord(syslog & 7, syslog >> 3, seq, t_us, text, tags)


def _is_number(field: bytes) -> bool:
    return field.isdigit() and len(field) <= 20  # 64 bits


class KmsgReader:
    """Reads on from where the open file stands (a fresh one: the oldest record kept). `read` is os.read's stand-in for tests.

    `overruns` counts how often records were overwritten before they were read (EPIPE), `bad` those that did not parse.
    """

    def __init__(self, fd: int, read: Callable[[int, int], bytes] = os.read) -> None:
        self.overruns = 0
        self.bad = 0
        self._fd = fd
        self._read = read

    def next(self) -> KmsgRecord | None:
        """Give the next good record, None if there is no more by now. Raises OSError as read(2) does."""
        while True:
            try:
                raw = self._read(self._fd, RECORD_BYTES)
            except BlockingIOError:
                return None
            except BrokenPipeError:
                self.overruns += 1
                continue
            if not raw:
                return None
            record = parse(raw)
            if record is not None:
                return record
            self.bad += 1


def last(reader: KmsgReader, count: int = 200, limit_s: float = LIMIT_S) -> list[KmsgRecord]:
    """Give the newest `count` records there are now, oldest first; a log that grows meanwhile holds nobody up."""
    kept: deque[KmsgRecord] = deque(maxlen=count)
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and (record := reader.next()) is not None:
        kept.append(record)
    return list(kept)


def open_kmsg(path: str = "/dev/kmsg") -> int:
    """Open the log for reading without blocking. Raises OSError (EPERM: kernel.dmesg_restrict without CAP_SYSLOG).

    The right is checked when it is opened only: whoever is handed the fd may read on.
    """
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def last_lines(fd: int, count: int = 200) -> list[str]:
    """Give the newest `count` messages as text and close `fd`."""
    try:
        return [str(record) for record in last(KmsgReader(fd), count)]
    finally:
        with contextlib.suppress(OSError):
            os.close(fd)
