"""For workloads: say "I work" to whoever watches over them (sd_notify(3)), and hear which profile to use.

    from agent import watch

    with watch.Watch() as me:              # READY=1 on entering, STOPPING=1 on leaving
        for frame in frames:
            handle(frame)
            me.beat(done=1)                # after each piece of work: never from a timer of its own
            if me.profile == "low": …      # see `Watch.profile`

Other forms: `async with Watch()` and `beating(…)` for asyncio, `Thread` for code that can only be asked how far it has come.
Standard library only, and nothing else of Gatewarden. Under plain systemd, or started by hand, it works or does nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket  # noqa: TID251 - this file runs in workloads, which have no agent/linux
import stat
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from types import TracebackType
from typing import Self

DATA_BYTES = 4096  # of an event


class Watch:
    """The line to the supervisor. Its methods may be called from any thread; none of them blocks or raises OSError.

    `profile` is the name of the profile that this process is to use ("": the full one). It changes in a `beat`, which then
    calls `on_profile(name)` if that was given; when that returns, the change is confirmed. Otherwise whoever reads `profile`
    calls `confirm()` once it is in force. A change that is not confirmed within 3 s ends in a restart with GATEWARDEN_PROFILE.
    """

    def __init__(self, on_profile: Callable[[str], None] | None = None) -> None:
        """Find the supervisor in the environment: NOTIFY_SOCKET, WATCHDOG_USEC, GATEWARDEN_PROFILE, GATEWARDEN_PROFILE_FILE."""
        self.profile = os.environ.get("GATEWARDEN_PROFILE", "")
        self.work = 0
        self._on_profile = on_profile
        self._file = os.environ.get("GATEWARDEN_PROFILE_FILE", "")
        self._stamp: tuple[int, int] | None = None
        self._lock = threading.Lock()
        address = os.environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._sock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None

    @property
    def deadline_s(self) -> float | None:
        """Seconds within which a beat is expected (WATCHDOG_USEC); None if none is."""
        usec = os.environ.get("WATCHDOG_USEC", "")
        return int(usec) / 1e6 if usec.isdecimal() and int(usec) else None

    def ready(self, status: str = "") -> None:
        """Say that the work has begun."""
        self._send("READY=1", *_status(status))

    def beat(self, done: int = 0, status: str = "") -> None:
        """Say that work was done, `done` pieces of it, and take up a change of profile."""
        with self._lock:
            self.work += done
        self._send("WATCHDOG=1", *([f"X_GATEWARDEN_WORK={self.work}"] if done else []), *_status(status))
        self._look()

    def extend(self, seconds: float) -> None:
        """Ask for this much time from now on: something slow begins (a model is loaded, an engine built)."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * 1e6)}")

    def reloading(self) -> None:
        """Say that it reloads its configuration; `ready` ends that."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Say that it is about to end."""
        self._send("STOPPING=1")

    def event(self, kind: str, data: Mapping[str, object] | None = None) -> None:
        """Report `video.audio_lost`, `video.timeout` or `work.NAME`. Raises ValueError if `data` is not JSON of 4 KiB."""
        text = json.dumps(data or {}, separators=(",", ":"), allow_nan=False)
        if len(text.encode()) > DATA_BYTES:
            raise ValueError(f"data: {len(text.encode())} bytes, at most {DATA_BYTES}")
        self._send(f"X_GATEWARDEN_EVENT={kind}", f"X_GATEWARDEN_DATA={text}")

    def confirm(self) -> None:
        """Say that `profile` is in force."""
        self._send(f"X_GATEWARDEN_PROFILE={self.profile}")

    def close(self) -> None:
        """Say nothing any more."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def __enter__(self) -> Self:
        """Say READY=1."""
        self.ready()
        return self

    def __exit__(self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None) -> None:
        """Say STOPPING=1."""
        self.stopping()
        self.close()

    async def __aenter__(self) -> Self:
        """Say READY=1."""
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Say STOPPING=1."""
        self.__exit__(kind, error, trace)

    def _send(self, *lines: str) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):  # nobody there, or too busy: a lost beat must not stop the work
                self._sock.sendto("\n".join(lines).encode(), socket.MSG_DONTWAIT, self._address)

    def _look(self) -> None:
        """Read the profile file if it was replaced since."""
        if not self._file:
            return
        try:
            found = os.stat(self._file)  # noqa: PTH116 - two strings per frame, not a path object
            stamp = found.st_ino, found.st_mtime_ns
            if stamp == self._stamp or not stat.S_ISREG(found.st_mode):  # a FIFO would hold up the work
                return
            with open(self._file, encoding="utf-8") as file:  # noqa: PTH123
                name = file.read(64).strip()
        except (OSError, ValueError):
            return
        with self._lock:
            changed, self._stamp = name != self.profile, stamp
            self.profile = name
        if changed and self._on_profile is not None:
            self._on_profile(name)
            self.confirm()


class Thread(threading.Thread):
    """Beats from a thread, for code that cannot be touched: only when `progress()` gives another value than the last time.

    It looks every third of the deadline (1 s without one). As a context manager it says READY=1 and STOPPING=1, too.
    """

    def __init__(self, progress: Callable[[], object], me: Watch | None = None) -> None:
        """Start nothing yet. `progress` is cheap and says how far the work has come: a frame count, a position."""
        super().__init__(name="gatewarden-watch", daemon=True)
        self.me = me or Watch()
        self._progress = progress
        self._over = threading.Event()

    def run(self) -> None:
        """Look and beat until `stop`."""
        period, before = (self.me.deadline_s or 3.0) / 3, object()
        while not self._over.wait(period):
            now = self._progress()
            if now != before:
                before = now
                self.me.beat()

    def stop(self) -> None:
        """End it."""
        self._over.set()
        self.join()

    def __enter__(self) -> Watch:
        """Begin."""
        self.start()
        return self.me.__enter__()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """End."""
        self.stop()
        self.me.__exit__(kind, error, trace)


@contextlib.asynccontextmanager
async def beating(progress: Callable[[], object], me: Watch | None = None) -> AsyncIterator[Watch]:
    """Do as `Thread` does from a task of the running asyncio loop, so that a loop that stands still is noticed, too."""
    import asyncio  # noqa: PLC0415 - 40 ms that threads and plain loops need not pay

    found = me or Watch()

    async def look() -> None:
        before: object = object()
        while True:
            await asyncio.sleep((found.deadline_s or 3.0) / 3)
            now = progress()
            if now != before:
                before = now
                found.beat()

    async with found:
        task = asyncio.create_task(look(), name="gatewarden-watch")
        try:
            yield found
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


def _status(text: str) -> list[str]:
    return [f"STATUS={' '.join(text.split())}"] if text else []
