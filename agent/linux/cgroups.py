"""Units that come and go, by their cgroups (cgroups(7)): systemd makes a folder before it starts a unit, and removes it after.

By inotify(7) on system.slice, in the unified tree and the hybrid ones, which takes neither D-Bus nor privileges. A unit in a
slice of its own is not seen.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Collection
from pathlib import Path

from agent.ports import Loop

ROOT = Path("/")
_TREES = ("sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/systemd")
_CREATE, _DELETE, _ONLYDIR, _OVERFLOW = 0x100, 0x200, 0x1000000, 0x4000  # IN_*
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # IN_NONBLOCK and IN_CLOEXEC are defined as these
_HEAD = struct.Struct("iIII")  # struct inotify_event: wd, mask, cookie, len
_CHUNK = 16 * 1024

_libc = ctypes.CDLL(None, use_errno=True)


class UnitFolders:
    """Calls `changed(unit)` on the loop when one of `units` got or lost its cgroup; for each of them if some were missed."""

    def __init__(self, loop: Loop, units: Collection[str], changed: Callable[[str], None], root: Path = ROOT) -> None:
        """Watch; without a system.slice (no systemd here) nothing ever changes."""
        self._loop, self._units, self._changed = loop, frozenset(units), changed
        self._fd = _libc.inotify_init1(_FLAGS) if units else -1
        if self._fd >= 0:
            for tree in _TREES:
                path = os.fsencode(root / tree / "system.slice")
                _libc.inotify_add_watch(self._fd, path, _CREATE | _DELETE | _ONLYDIR)
            loop.on_readable(self._fd, self._read, "unit folders")

    def close(self) -> None:
        """Watch nothing any more."""
        if self._fd >= 0:
            self._loop.forget(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _read(self) -> None:
        data = os.read(self._fd, _CHUNK)
        found: dict[str, None] = {}
        while data:
            _watch, mask, _cookie, length = _HEAD.unpack_from(data)
            name = data[_HEAD.size : _HEAD.size + length].rstrip(b"\0").decode(errors="backslashreplace")
            found |= dict.fromkeys(self._units if mask & _OVERFLOW else self._units & {name})
            data = data[_HEAD.size + length :]
        for unit in found:
            self._changed(unit)
