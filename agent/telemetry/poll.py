"""Waiting for one socket, a time, or another thread: an epoll with an eventfd, so that an idle thread sleeps."""

from __future__ import annotations

import os
from contextlib import suppress
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector


class Poll:
    """`wait` belongs to one thread, `wake` to all."""

    def __init__(self) -> None:
        self._selector = DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._wake, EVENT_READ)
        self._fd = -1
        self._mask = 0
        self.wakeups = 0

    def watch(self, fd: int) -> None:
        """Wait for `fd` too, until `forget`."""
        self._fd, self._mask = fd, EVENT_READ
        self._selector.register(fd, EVENT_READ)

    def forget(self) -> None:
        """Wait for it no more; it may be closed already."""
        if self._fd >= 0:
            self._selector.unregister(self._fd)
            self._fd = -1

    def wait(self, timeout_s: float | None, *, write: bool = False) -> bool:
        """Sleep until something happens; gives whether the watched fd has bytes. With `write`, also until it takes bytes."""
        mask = EVENT_READ | (EVENT_WRITE if write else 0)
        if self._fd >= 0 and mask != self._mask:
            self._selector.modify(self._fd, mask)
            self._mask = mask
        ready = self._selector.select(timeout_s)
        self.wakeups += 1
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        return any(key.fd == self._fd and what & EVENT_READ for key, what in ready)

    def wake(self) -> None:
        """End the present or the next `wait`."""
        os.eventfd_write(self._wake, 1)

    def close(self) -> None:
        """Give the descriptors back; nobody may call `wake` any more."""
        self._selector.close()
        os.close(self._wake)
