"""Descriptors that workloads leave with the keeper (FDSTORE=1, sd_notify(3)) for the process that replaces them."""

from __future__ import annotations

import os
from contextlib import suppress

from agent.linux import spawn

MOST = 16  # of one workload; 64 workloads stay below the usual limit of 1,024 only if few of them use it


class FdStore:
    """Descriptors by workload; those of a name are passed on in the order in which they came."""

    def __init__(self) -> None:
        """Hold nothing yet."""
        self._held: dict[str, dict[int, str]] = {}

    def of(self, name: str) -> dict[int, str]:
        """Give what `name` left: names by descriptor."""
        return dict(self._held.get(name, {}))

    def take(self, name: str, fds: list[int], label: str) -> int:
        """Keep `fds` (they are ours now) as `label`; give how many found no room."""
        held = self._held.setdefault(name, {})
        refused = 0
        while fds:
            fd = fds.pop(0)
            if len(held) < MOST:
                with suppress(OSError):  # no descriptor left: the workload keeps its own
                    held[spawn.kept(fd)] = label
            else:
                refused += 1
                os.close(fd)
        return refused

    def remove(self, name: str, label: str) -> None:
        """Close what `name` left as `label`."""
        held = self._held.get(name, {})
        for fd in [fd for fd, known in held.items() if known == label]:
            del held[fd]
            os.close(fd)
