"""All timers of a process on one timerfd (CLOCK_MONOTONIC): it expires when the earliest is due, else never.

Python has no `os.timerfd_*` before 3.13, hence ctypes. There are a few dozen timers at most, so the earliest is searched for.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable

NS = 1_000_000_000
_ABSOLUTE = 1  # TFD_TIMER_ABSTIME
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are defined as these

_libc = ctypes.CDLL(None, use_errno=True)


class _Itimerspec(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_long) for name in ("interval_s", "interval_ns", "value_s", "value_ns"))


class Timer:
    """One timer; `period_ns` is 0 if it fires once."""

    __slots__ = ("_timers", "callback", "due_ns", "name", "period_ns")

    def __init__(self, timers: Timers, due_ns: int, period_ns: int, callback: Callable[[], None], name: str) -> None:
        self._timers = timers
        self.due_ns = due_ns
        self.period_ns = period_ns
        self.callback = callback
        self.name = name

    def cancel(self) -> None:
        """Never fire (again); a second call, or one after it fired, does nothing."""
        self._timers.cancel(self)


class Timers:
    """The set of timers; `fd` is readable when `due` has some to give."""

    def __init__(self) -> None:
        self.fd = _check(_libc.timerfd_create(time.CLOCK_MONOTONIC, _FLAGS), "timerfd_create")
        self._armed_ns = 0
        self._timers: dict[Timer, None] = {}

    def once(self, seconds: float, callback: Callable[[], None], name: str) -> Timer:
        """Add a timer that is due after `seconds`, at once if that is 0 or less."""
        return self._add(Timer(self, _now() + max(int(seconds * NS), 0), 0, callback, name))

    def every(self, seconds: float, callback: Callable[[], None], name: str) -> Timer:
        """Add a timer that is due at each whole multiple of `seconds` on CLOCK_MONOTONIC.

        So the first time comes after 0 to `seconds`, and periods with common multiples are due together: one wake-up
        serves them all. Raises ValueError if `seconds` is not positive.
        """
        period_ns = int(seconds * NS)
        if period_ns <= 0:
            raise ValueError(f"{name}: a period of {seconds} s")
        return self._add(Timer(self, _next_multiple(period_ns, _now()), period_ns, callback, name))

    def cancel(self, timer: Timer) -> None:
        """Take `timer` out; an unknown one is fine."""
        if timer in self._timers:
            del self._timers[timer]
            self._arm()

    def run_due(self, call: Callable[[str, Callable[[], None]], object]) -> None:
        """Serve what is due, earliest first, by `call(name, callback)`; then set the fd to the next one.

        Periods that were missed meanwhile are skipped. A timer that another callback cancels is not called.
        """
        now = _now()
        for timer in sorted((timer for timer in self._timers if timer.due_ns <= now), key=lambda timer: timer.due_ns):
            if timer not in self._timers:
                continue
            if not timer.period_ns:
                del self._timers[timer]
            call(timer.name, timer.callback)
            if timer.period_ns:
                timer.due_ns = _next_multiple(timer.period_ns, _now())
        self._armed_ns = -1  # settime also takes back the readiness of what was served
        self._arm()

    def close(self) -> None:
        """Give back the fd."""
        self._timers.clear()
        os.close(self.fd)

    def _add(self, timer: Timer) -> Timer:
        self._timers[timer] = None
        self._arm()
        return timer

    def _arm(self) -> None:
        earliest = min((timer.due_ns for timer in self._timers), default=0)  # 0 disarms
        if earliest != self._armed_ns:
            spec = _Itimerspec(0, 0, *divmod(earliest, NS))
            _check(_libc.timerfd_settime(self.fd, _ABSOLUTE, ctypes.byref(spec), None), "timerfd_settime")
            self._armed_ns = earliest


def _now() -> int:
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC)


def _next_multiple(period_ns: int, now: int) -> int:
    return (now // period_ns + 1) * period_ns


def _check(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
