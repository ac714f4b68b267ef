"""Keeping this process in memory: what a feed needs must not wait for a disk that is the trouble itself."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from agent.linux import procfs

_CURRENT, _FUTURE, _ONFAULT = 1, 2, 4  # include/uapi/asm-generic/mman.h
_libc = ctypes.CDLL(None, use_errno=True)


def lock() -> str:
    """Lock every page that was or will be touched (MCL_ONFAULT: no others), by RLIMIT_MEMLOCK alone; say what became of it.

    The limit counts address space, not memory, and mmap(2) fails beyond it: only without a limit is it safe for a process that
    makes threads, so a limit means that nothing is locked.
    """
    import resource  # noqa: PLC0415 - needed once

    soft, _hard = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    if soft != resource.RLIM_INFINITY and os.geteuid() != 0:
        return f"not locked (limit {soft >> 10} KiB: LimitMEMLOCK=infinity would allow it)"
    if int(_libc.mlockall(_CURRENT | _FUTURE | _ONFAULT)) < 0:
        return f"not locked ({os.strerror(ctypes.get_errno())})"
    return "locked"


def oom_score_adj(root: Path = procfs.ROOT) -> int | None:
    """Give how the out-of-memory killer weighs us: -1000 never .. 1000 first (proc(5)). Lowering it takes the unit."""
    text = (procfs.read(root / "proc/self/oom_score_adj") or "").strip()
    return int(text) if text.lstrip("-").isdecimal() else None
