"""Threads for work that may block (a snapshot's fsync, a broker's answer), so that the loop never does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from threading import Condition, Thread

_ROOM = 256  # jobs in line, of all keys together: some of each of the 64 workloads that there can be
_LANES = 8  # threads at once
_CLOSE_S = 5.0

Job = Callable[[], None]


class Worker:
    """Runs jobs: those with one key one after the other, those with several side by side. Jobs must not raise.

    A key's thread begins with its first job and ends when there is none left, so that a hung disk holds up nobody else's
    recovery. While `_LANES` threads are busy, further keys wait, all but the `urgent` ones.
    """

    def __init__(self, name: str, urgent: Collection[str] = ()) -> None:
        """Start nothing yet."""
        self._name = name
        self._urgent = frozenset(urgent)
        self._changed = Condition()
        self._waiting: dict[str, deque[Job]] = {}
        self._busy: dict[str, Thread] = {}

    def submit(self, key: str, job: Job) -> bool:
        """Queue `job`; False if there is no room (the jobs before it hang)."""
        with self._changed:
            if sum(map(len, self._waiting.values())) >= _ROOM:
                return False
            self._waiting.setdefault(key, deque()).append(job)
            self._begin()
        return True

    def close(self) -> None:
        """Finish what is queued, in bounded time."""
        with self._changed:
            self._changed.wait_for(lambda: not self._busy, _CLOSE_S)

    def _begin(self) -> None:
        idle = [key for key in self._waiting if key not in self._busy]
        room = max(0, _LANES - len(self._busy.keys() - self._urgent))
        for key in [*self._urgent.intersection(idle), *[key for key in idle if key not in self._urgent][:room]]:
            self._busy[key] = Thread(target=self._run, args=(key,), name=f"{self._name} {key}"[:15], daemon=True)
            self._busy[key].start()

    def _run(self, key: str) -> None:
        while (job := self._next(key)) is not None:
            job()

    def _next(self, key: str) -> Job | None:
        with self._changed:
            if waiting := self._waiting.get(key):
                return waiting.popleft()
            self._waiting.pop(key, None)
            del self._busy[key]
            self._begin()
            self._changed.notify_all()
            return None
