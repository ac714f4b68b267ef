"""timerfd_create(2) on CLOCK_MONOTONIC. Python has no `os.timerfd_*` before 3.13, hence ctypes."""

from __future__ import annotations

import ctypes
import os
import sys
import time

NS = 1_000_000_000
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are defined as these

_libc = ctypes.CDLL(None, use_errno=True)


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def _create(first_ns: int, period_ns: int, flags: int) -> int:
    fd = _check(_libc.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS), "timerfd_create")
    spec = _Itimerspec(_Timespec(*divmod(period_ns, NS)), _Timespec(*divmod(first_ns, NS)))
    _check(_libc.timerfd_settime(fd, flags, ctypes.byref(spec), None), "timerfd_settime")
    return fd


def once(seconds: float) -> int:
    """Give an fd that becomes readable after `seconds` (at once, not never, if that is 0 or less)."""
    return _create(max(int(seconds * NS), 1), 0, 0)


def every(seconds: float) -> int:
    """Give an fd that becomes readable at each whole multiple of `seconds` on CLOCK_MONOTONIC.

    So the first time comes after 0 to `seconds`, and periods with common multiples expire together: one wake-up serves
    them all. Raises ValueError if `seconds` is not positive.
    """
    period_ns = int(seconds * NS)
    if period_ns <= 0:
        raise ValueError(f"a period of {seconds} s")
    first_ns = (time.clock_gettime_ns(time.CLOCK_MONOTONIC) // period_ns + 1) * period_ns
    return _create(first_ns, period_ns, _ABSOLUTE)


def expirations(fd: int) -> int:
    """Give how often the timer expired since the last call; 0 if it did not."""
    try:
        return int.from_bytes(os.read(fd, 8), sys.byteorder)
    except BlockingIOError:
        return 0
