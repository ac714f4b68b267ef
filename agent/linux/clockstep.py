"""Steps of the wall clock, told by the kernel: a timerfd that a step cancels (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET)."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable

from agent.model import Sighting
from agent.ports import Clock, Loop

_CLOCK_REALTIME = 0
_FLAGS = os.O_NONBLOCK | os.O_CLOEXEC  # TFD_NONBLOCK and TFD_CLOEXEC are defined as these
_ABSTIME, _CANCEL_ON_SET = 1, 2
_FAR_S = 1 << 40  # never
_SMALL_S = 0.05  # what a time service slews in small steps is no step to anybody
_libc = ctypes.CDLL(None, use_errno=True)


class ClockStep:
    """Calls `stepped` with a `clock.step` sighting whenever CLOCK_REALTIME was set. No wake-up otherwise."""

    def __init__(self, loop: Loop, clock: Clock, stepped: Callable[[Sighting], None]) -> None:
        """Begin to watch. Raises OSError where the kernel has no timerfd."""
        self._loop = loop
        self._clock = clock
        self._stepped = stepped
        self._fd = int(_libc.timerfd_create(_CLOCK_REALTIME, _FLAGS))
        if self._fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._offset_s = self._offset()
        self._arm()
        loop.on_readable(self._fd, self._fired, "clock step")

    def _arm(self) -> None:
        # struct itimerspec: interval, then value; each a time_t and a long
        spec = ctypes.create_string_buffer(struct.pack("=qqqq", 0, 0, _FAR_S, 0))
        _libc.timerfd_settime(self._fd, _ABSTIME | _CANCEL_ON_SET, spec, None)

    def _offset(self) -> float:
        return self._clock.wall() - self._clock.mono_ns() / 1e9

    def _fired(self) -> None:
        try:
            os.read(self._fd, 8)
        except OSError as error:
            if error.errno not in {errno.ECANCELED, errno.EAGAIN}:
                raise
        self._arm()
        before, self._offset_s = self._offset_s, self._offset()
        step = self._offset_s - before
        if abs(step) >= _SMALL_S:
            data = {"step_s": round(step, 3), "wall_s": round(self._clock.wall(), 3)}
            self._stepped(Sighting(self._clock.mono_ns(), "agent", "clock.step", "realtime", "warning", dict(data)))

    def close(self) -> None:
        """Stop watching."""
        self._loop.forget(self._fd)
        os.close(self._fd)
