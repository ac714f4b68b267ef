"""The real clock."""

from __future__ import annotations

import os
import time
from pathlib import Path


class SystemClock:
    """`ports.Clock` on clock_gettime(2)."""

    def mono_ns(self) -> int:
        """CLOCK_MONOTONIC in ns."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def wall(self) -> float:
        """Seconds since the epoch, UTC."""
        return time.time()


def boot_id(root: Path = Path("/")) -> str:
    """Give the kernel's random id of this boot (sysctl kernel.random.boot_id), dashes left out; "unknown" without /proc."""
    try:
        return (root / "proc/sys/kernel/random/boot_id").read_text().strip().replace("-", "")
    except OSError:
        return "unknown"


def pause(seconds: float) -> None:
    """Let a foreground command wait; the daemon has timerfds instead."""
    time.sleep(seconds)


def chance() -> float:
    """Give a random number, 0 <= x < 1: for jitter, not for secrets."""
    import random  # noqa: PLC0415 - with it comes hashlib, and the keeper wants the clock alone

    return random.random()  # noqa: S311 - jitter


def nonce() -> int:
    """Give 32 bits that nobody can foresee."""
    return int.from_bytes(os.urandom(4))
