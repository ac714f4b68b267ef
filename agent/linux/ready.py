"""Whether agentd can start here at all: the kernel's file systems, and folders with everything in them its own to write."""

from __future__ import annotations

import errno
import os
import pwd
import stat
from pathlib import Path

from agent.errors import GatewardenError, StoreError

_NEEDED = (("proc", "proc/self/stat"), ("sysfs", "sys/devices/system/cpu/possible"))


def machine(root: Path = Path("/")) -> None:
    """Raise GatewardenError, naming the mount, unless /proc and /sys can be read: every measurement rests on them."""
    for kind, name in _NEEDED:
        try:
            (root / name).read_bytes()
        except OSError as error:
            raise GatewardenError(f"/{name}: {error.strerror}; mount -t {kind} {kind} /{name.split('/')[0]}") from error


def folder(path: Path) -> None:
    """Make `path` if need be. Raises StoreError, with owner and remedy, if this user cannot use it or a file in it."""
    try:
        path.mkdir(mode=0o750, parents=True, exist_ok=True)
        _require_room(path)
        files = [item for item in sorted(path.iterdir()) if stat.S_ISREG(item.lstat().st_mode)]
    except OSError as error:
        if error.errno == errno.EROFS:
            raise StoreError(f"{path}: {error.strerror}; mount it writable, or set [paths] to a folder elsewhere") from error
        raise StoreError(
            f"{path}: {error.strerror}; as root: install -d -o {user()} -g {user()} -m 0750 {path}, and chown what is in it"
        ) from error
    for item in files:
        if not os.access(item, os.R_OK | os.W_OK):
            who = _owner(item)
            raise StoreError(
                f"{item} belongs to {who} and is closed to {user()}; run as {who}, or as root: chown -R {user()} {path}"
            )


def _require_room(path: Path) -> None:
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))
    if not os.access(path, os.W_OK | os.X_OK):
        raise PermissionError(13, f"belongs to {_owner(path)} and is closed to {user()}")


def user() -> str:
    """Give the name of the user that this process runs as, else his number."""
    return _name(os.geteuid())


def _owner(path: Path) -> str:
    return _name(path.stat().st_uid)


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
