"""The one epoll of a process: descriptors, timers, signals and calls from other threads, each as a callback by name."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from collections import deque
from collections.abc import Callable
from types import FrameType

from agent.linux.timers import Timer, Timers

Callback = Callable[[], None]
FAULTS = 10  # a callback that fails so often in a row most likely never drains its fd, and would spin the loop
_FAILED = select.EPOLLERR | select.EPOLLHUP


class _Watch:
    """What to call for one fd."""

    __slots__ = ("faults", "fd", "name", "read", "write")

    def __init__(self, fd: int, name: str) -> None:
        self.fd = fd
        self.name = name
        self.read: Callback | None = None
        self.write: Callback | None = None
        self.faults = 0

    @property
    def mask(self) -> int:
        return (select.EPOLLIN if self.read else 0) | (select.EPOLLOUT if self.write else 0)


class EpollLoop:
    """`ports.Loop`, and `once`, `on_signal`, `run`, `stop`. All but `call_soon_threadsafe` and `stop` belong to one thread.

    A callback that raises is reported to `on_error(name, exception)` and the loop goes on; an fd whose callback fails
    `FAULTS` times in a row is not watched any longer (reported too). `wakeups` counts the returns of epoll_wait.
    """

    def __init__(self, on_error: Callable[[str, Exception], None]) -> None:
        self.wakeups = 0
        self._on_error = on_error
        self._epoll = select.epoll()
        self._watches: dict[int, _Watch] = {}
        self._signals: dict[int, Callback] = {}
        self._handlers: dict[int, signal._HANDLER] = {}
        self._signal_pipe: tuple[int, int] | None = None
        self._stopping = False
        self._calls: deque[Callback] = deque()
        self._poke = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._timers = Timers()
        self.on_readable(self._poke, self._run_calls, "loop.calls")
        self.on_readable(self._timers.fd, self._run_timers, "loop.timers")

    def on_readable(self, fd: int, callback: Callback | None, name: str) -> None:
        """Call `callback` whenever `fd` is readable, until `forget(fd)`; None: keep `fd`, do not read (see `on_writable`)."""
        watch = self._watches.get(fd) or _Watch(fd, name)
        watch.read = callback
        watch.name = name
        if fd in self._watches:
            self._epoll.modify(fd, watch.mask)
        else:
            self._epoll.register(fd, watch.mask)
            self._watches[fd] = watch

    def on_writable(self, fd: int, callback: Callback | None) -> None:
        """Also call `callback` whenever the known `fd` takes bytes; None ends that."""
        watch = self._watches[fd]
        watch.write = callback
        self._epoll.modify(fd, watch.mask)

    def forget(self, fd: int) -> None:
        """Stop watching `fd` (it is not closed); an unknown one is fine."""
        if self._watches.pop(fd, None) is not None:
            with contextlib.suppress(OSError, ValueError):  # closed before it was forgotten: the kernel already dropped it
                self._epoll.unregister(fd)

    def every(self, seconds: float, callback: Callback, name: str) -> Timer:
        """Call `callback` at each whole multiple of `seconds` (see `Timers.every`); `cancel` of what it gives ends that."""
        return self._timers.every(seconds, callback, name)

    def once(self, seconds: float, callback: Callback, name: str) -> Timer:
        """Call `callback` after `seconds`; `cancel` of what it gives takes that back."""
        return self._timers.once(seconds, callback, name)

    def call_soon_threadsafe(self, callback: Callback) -> None:
        """From any thread: run `callback` on the loop's own."""
        self._calls.append(callback)
        os.eventfd_write(self._poke, 1)

    def on_signal(self, number: signal.Signals, callback: Callback) -> None:
        """Call `callback` on the loop after signal `number`. Main thread only. Children inherit nothing of it."""
        if self._signal_pipe is None:
            self._signal_pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
            signal.set_wakeup_fd(self._signal_pipe[1], warn_on_full_buffer=False)
            self.on_readable(self._signal_pipe[0], self._run_signals, "loop.signals")
        self._signals[number] = callback
        before = signal.signal(number, _noted)
        self._handlers.setdefault(number, before or signal.SIG_DFL)

    def run(self) -> None:
        """Serve until `stop`; with nothing due it sleeps in the kernel."""
        while not self._stopping:
            events = self._epoll.poll()
            self.wakeups += 1
            # Looked up first: a callback may forget an fd of this batch, and the number may be somebody else's by then.
            for watch, mask in [(self._watches.get(fd), mask) for fd, mask in events]:
                if watch is not None:
                    self._serve(watch, mask)
        self._stopping = False

    def stop(self) -> None:
        """From any thread: let `run` return after the batch that it is serving."""
        self._stopping = True
        os.eventfd_write(self._poke, 1)

    def close(self) -> None:
        """Give back every fd that the loop made, and the former handlers of its signals."""
        for number, before in self._handlers.items():
            signal.signal(number, before)
        if self._signal_pipe is not None:
            signal.set_wakeup_fd(-1)
            for fd in self._signal_pipe:
                os.close(fd)
        self._epoll.close()
        self._timers.close()
        os.close(self._poke)

    def report(self, name: str, error: Exception) -> None:
        """Hand an error to `on_error`; one that raises itself changes nothing."""
        with contextlib.suppress(Exception):
            self._on_error(name, error)

    def _serve(self, watch: _Watch, mask: int) -> None:
        callbacks = []
        if mask & (select.EPOLLIN | _FAILED) and watch.read:
            callbacks.append(watch.read)
        if watch.write and (mask & select.EPOLLOUT or not callbacks):
            callbacks.append(watch.write)
        if not callbacks:
            self.forget(watch.fd)  # a hang-up that nobody reads would be told for ever
        for callback in callbacks:
            if self._watches.get(watch.fd) is watch:
                self._call(watch, callback)

    def _call(self, watch: _Watch, callback: Callback) -> None:
        watch.faults = 0 if self._guarded(watch.name, callback) else watch.faults + 1
        if watch.faults == FAULTS and self._watches.get(watch.fd) is watch:
            self.forget(watch.fd)
            self.report(watch.name, RuntimeError(f"failed {FAULTS} times in a row: not watched any longer"))

    def _guarded(self, name: str, callback: Callback) -> bool:
        """Tell whether `callback` ended well; one that did not is reported."""
        try:
            callback()
        except Exception as error:  # noqa: BLE001 - one callback's fault must not end the others
            self.report(name, error)
            return False
        return True

    def _run_timers(self) -> None:
        self._timers.run_due(self._guarded)

    def _run_calls(self) -> None:
        os.eventfd_read(self._poke)
        for _ in range(len(self._calls)):  # those that they add come next time round: nobody starves
            self._guarded("loop.calls", self._calls.popleft())
        if self._calls:
            os.eventfd_write(self._poke, 1)

    def _run_signals(self) -> None:
        pipe = self._signal_pipe
        for number in dict.fromkeys(os.read(pipe[0], 4096)) if pipe else ():
            callback = self._signals.get(number)
            if callback is not None:
                self._guarded(f"loop.{signal.Signals(number).name}", callback)


def _noted(_number: int, _frame: FrameType | None) -> None:
    """Stand in as a handler so that the interpreter writes the number to the wake-up pipe."""
