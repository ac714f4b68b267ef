"""`ports.Store`: the thread that owns the outbox, and the gate in front of it. The main loop never waits for a disk here.

Records go in by `append` and are committed as soon as the thread is free, together with what has arrived meanwhile; `done`
then runs on the main loop. If the disk hangs or is full, `ROOM` records wait in memory; beyond that new ones are given up,
counted, and explained by a gap record once the disk works again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event as Flag
from threading import Thread
from typing import TypeAlias

from agent.model import Data
from agent.ports import Clock, Loop
from agent.telemetry.committer import Answer, Committer, Entry, Sink, Stats
from agent.telemetry.marks import Marks
from agent.telemetry.messages import Message, Request
from agent.telemetry.outbox import Outbox

ROOM = 2048  # records in memory; at 1 KiB each, and three times that as Python objects, 6 MiB
SAMPLE_ROOM = 16
PAUSE_S = 1.0  # after a fault of our own in the thread
CLOSE_S = 10.0

Job: TypeAlias = "Callable[[], None]"


class Spool:
    """Owns `outbox` from `start` on. `report` is called on the main loop with what an operator should know.

    `next_seq`, `append`, `metric`, `cursor`, `stats`, `recent`, `start` and `close` belong to the main loop; `acked`, `keep`,
    `quarantine` and `pending` may be called from any thread (the publisher's).
    """

    def __init__(
        self, outbox: Outbox, marks: Marks, loop: Loop, clock: Clock, boot_id: str, report: Callable[[str], None]
    ) -> None:
        self._loop = loop
        self._outbox = outbox
        self._committer = Committer(outbox, marks, clock, boot_id, loop.call_soon_threadsafe, report)
        self._inbox: SimpleQueue[Job] = SimpleQueue()
        self._numbers = itertools.count(outbox.next_number())
        self._accepted = 0
        self._sampled, self._samples_taken = 0, 0
        self._lost, self._lost_cursors = 0, dict[str, int]()
        self._closing = Flag()
        self._thread = Thread(target=self._run, name="spool", daemon=True)

    def start(self, sink: Sink | None) -> None:
        """Begin. Without a `sink` (no broker configured) metrics are not kept at all."""
        self._committer.sink = sink
        self._thread.start()

    def next_seq(self) -> int:
        """Give the next event number of this boot."""
        return next(self._numbers)

    def cursor(self, ring: str) -> int:
        """Give the last committed position of `ring`, 0 if there is none."""
        return self._outbox.cursor(ring)

    def append(self, records: Sequence[Data], cursors: Mapping[str, int], done: Callable[[], None]) -> None:
        """Commit `records` and `cursors` together within 20 ms; `done` runs on the main loop after the commit.

        Without room the records are given up: `done` runs at once, and the positions travel with the next that fit.
        """
        if self._accepted - self._committer.settled + len(records) > ROOM:
            self._lost += len(records)
            self._lost_cursors.update(cursors)
            self._loop.call_soon_threadsafe(done)
            return
        self._accepted += len(records)
        entry = Entry(records, {**self._lost_cursors, **cursors}, done, self._lost)
        self._lost, self._lost_cursors = 0, {}
        self._inbox.put(partial(self._committer.append, entry))

    def metric(self, payload: Data) -> None:
        """Hand over one metrics sample; without room it is given up."""
        if self._sampled - self._samples_taken < SAMPLE_ROOM:
            self._sampled += 1
            self._inbox.put(partial(self._take_sample, payload))

    def acked(self, ids: Sequence[int]) -> None:
        """Mark as delivered what the broker has."""
        self._inbox.put(partial(self._committer.acked, ids))

    def keep(self, samples: Sequence[Message]) -> None:
        """Put samples into the backlog that could not be delivered from memory."""
        self._inbox.put(partial(self._committer.keep, samples))

    def quarantine(self, number: int, reason: str) -> None:
        """Take a message out of the backlog that the broker will never accept."""
        self._inbox.put(partial(self._committer.quarantine, number, reason))

    def pending(self, request: Request) -> None:
        """Ask for a page of the backlog; the answer is `Sink.page`."""
        self._inbox.put(partial(self._committer.page, request))

    def recent(self, answer: Answer, limit: int, since_wall: float | None = None, kind: str | None = None) -> None:
        """Have `answer` called on the main loop with the newest records (see `history.recent`), or with a StoreError."""
        self._inbox.put(partial(self._committer.recent, limit, since_wall, kind, answer))

    def stats(self) -> Stats:
        """Give the state of the store as of its last change."""
        return self._committer.stats

    def close(self) -> bool:
        """Commit what waits and close the outbox, in bounded time; False if the disk hangs."""
        if self._lost:
            self._inbox.put(partial(self._committer.append, Entry([], self._lost_cursors, _nothing, self._lost)))
        self._closing.set()
        self._inbox.put(_nothing)
        if self._thread.ident is None:
            self._finish()
        else:
            self._thread.join(CLOSE_S)
        return not self._thread.is_alive()

    def _take_sample(self, payload: Data) -> None:
        self._samples_taken += 1
        self._committer.metric(payload)

    def _run(self) -> None:
        while not self._closing.is_set():
            try:
                self._turn()
            except Exception as error:  # noqa: BLE001 - whatever it was, it must not end the thread; it is counted and shown
                with suppress(Exception):
                    self._committer.fault(error)
                self._closing.wait(PAUSE_S)
        self._finish()

    def _finish(self) -> None:
        self._drain()
        self._committer.finish()

    def _turn(self) -> None:
        with suppress(Empty):
            self._inbox.get(timeout=self._committer.wait_s())()
        self._drain()
        self._committer.work()

    def _drain(self) -> None:
        for _ in range(self._inbox.qsize()):
            self._inbox.get()()


def _nothing() -> None:
    pass
