"""PSI triggers: the kernel wakes us when the machine begins to starve (Documentation/accounting/psi.rst).

Without privileges since 6.5, for windows that are multiples of 2 s; where that is refused the readings of each tick must do.
The descriptors tell by EPOLLPRI, so they have an epoll of their own, which is readable in the loop's.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.ports import Loop

FOLDER = Path("/proc/pressure")
_WHEN = "1000000 2000000"  # half of a window of 2 s, in µs: from there on the detectors take a machine to be starved
TRIGGERS = {"cpu": f"some {_WHEN}", "memory": f"full {_WHEN}", "io": f"full {_WHEN}"}


class PressureTriggers:
    """Calls `starved()` on the loop, at most once in a window for each resource; `on` names those that are armed."""

    def __init__(self, loop: Loop, starved: Callable[[], None], triggers: Mapping[str, str] = TRIGGERS) -> None:
        """Arm what the kernel lets us."""
        self._loop, self._starved = loop, starved
        self._epoll = select.epoll()
        self._fds: dict[str, int] = {}
        for resource, trigger in triggers.items():
            with contextlib.suppress(OSError):
                self._fds[resource] = self._armed(FOLDER / resource, trigger)
        if self._fds:
            loop.on_readable(self._epoll.fileno(), self._fired, "pressure")

    @property
    def on(self) -> tuple[str, ...]:
        """The resources that are watched; none before 6.5 without CAP_SYS_RESOURCE."""
        return tuple(self._fds)

    def close(self) -> None:
        """Let go of them."""
        if self._fds:
            self._loop.forget(self._epoll.fileno())
        for fd in self._fds.values():
            os.close(fd)
        self._epoll.close()
        self._fds.clear()

    def _armed(self, path: Path, trigger: str) -> int:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            os.write(fd, trigger.encode() + b"\0")
            self._epoll.register(fd, select.EPOLLPRI)
        except OSError:
            os.close(fd)
            raise
        return fd

    def _fired(self) -> None:
        for fd, mask in self._epoll.poll(0):
            if mask & select.EPOLLERR:
                self._epoll.unregister(fd)  # it would be readable for ever
        self._starved()
