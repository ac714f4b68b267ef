"""Whether a time service keeps the clock: by adjtimex(2), or where a sandbox closes that, by what systemd-timesyncd leaves."""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

_TIMEX = 208  # sizeof(struct timex) with 64-bit longs (include/uapi/linux/timex.h)
_STATUS = slice(40, 44)  # its member `status`
_STA_UNSYNC = 0x40
_TIMESYNCD = Path("run/systemd/timesync")  # its RuntimeDirectory=, with a file `synchronized` once it is


def synchronised(root: Path = Path("/")) -> bool | None:
    """Tell it; None where nobody says: the system call is refused and another service than timesyncd is at work."""
    asked = by_kernel()
    return by_timesyncd(root) if asked is None else asked


def by_kernel() -> bool | None:
    """Ask adjtimex(2), which any user may; None where it is refused (the seccomp filter of agentd's unit does)."""
    block = ctypes.create_string_buffer(_TIMEX)
    libc = ctypes.CDLL(None, use_errno=True)
    if ctypes.sizeof(ctypes.c_long) != 8 or int(libc.adjtimex(block)) < 0:
        return None
    return not int.from_bytes(block.raw[_STATUS], sys.byteorder) & _STA_UNSYNC


def by_timesyncd(root: Path) -> bool | None:
    """Look for the mark of systemd-timesyncd (systemd-timesyncd.service(8)); None where it does not run."""
    folder = root / _TIMESYNCD
    return (folder / "synchronized").exists() if folder.is_dir() else None
