"""One thread for work that may block (a snapshot's fsync, a broker's answer), so that the loop never does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import Full, Queue
from threading import Thread

_ROOM = 32  # jobs; policies keep their number far below
_CLOSE_S = 5.0

Job = Callable[[], None]


class Worker:
    """Runs jobs one after the other. Jobs must not raise; the thread begins with the first one."""

    def __init__(self, name: str) -> None:
        """Start nothing yet."""
        self._jobs: Queue[Job | None] = Queue(_ROOM)
        self._thread = Thread(target=self._run, name=name, daemon=True)

    def submit(self, job: Job) -> bool:
        """Queue `job`; False if there is no room (the jobs before it hang)."""
        if self._thread.ident is None:
            self._thread.start()
        try:
            self._jobs.put_nowait(job)
        except Full:
            return False
        return True

    def close(self) -> None:
        """Finish what is queued, in bounded time."""
        if self._thread.ident is None:
            return
        with suppress(Full):
            self._jobs.put_nowait(None)
        self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
