"""The process that `crash.py` kills: reads a ring, appends with positions, delivers to a consumer's file, for ever.

`python -m tests.telemetry.crash_child FOLDER`. The ring is endless: the record at position n is n. Its consumer position is in
the file `released`, as the kernel keeps it for a pinned ring. Each released position is written to stdout: it is durable now.
"""

from __future__ import annotations

import os
import queue
import random
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import cast

from agent.linux.clock import SystemClock
from agent.ports import Loop
from agent.telemetry.flow import START
from agent.telemetry.marks import Marks
from agent.telemetry.messages import Message, Request
from agent.telemetry.outbox import Outbox
from agent.telemetry.spool import Spool
from tests.telemetry.doubles import BOOT, ROOMY, event

RING = f"{BOOT}/7"
PAGE = 50


class QueueLoop:
    """Runs callbacks of other threads on the main one."""

    def __init__(self) -> None:
        self.jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """Queue it."""
        self.jobs.put(callback)


class FileSink:
    """A consumer: writes down what it gets, then acknowledges."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.spool: Spool | None = None
        os.write(self._fd, b"\n")  # kill -9 may have torn the last line; it was not acknowledged and comes again

    def offer(self, messages: Sequence[Message]) -> None:
        """Take live messages."""
        lines = [b"%d %s %s\n" % (m.seq, m.stream.encode(), m.body) for m in messages]
        os.write(self._fd, b"".join(lines))
        assert self.spool is not None
        self.spool.acked([message.id for message in messages])

    def hears(self) -> bool:
        """Hear everything."""
        return True

    def sample(self, message: Message) -> bool:
        """Take no samples."""
        return not message

    def page(self, request: Request, messages: Sequence[Message]) -> None:
        """Take a page of the backlog, ask for the next."""
        self.offer(messages)
        assert self.spool is not None
        if len(messages) == PAGE:
            self.spool.pending(Request(request.ticket + 1, messages[-1].place, PAGE))


def position(folder: Path) -> int:
    """Give the consumer position of the ring."""
    path = folder / "released"
    return int.from_bytes(path.read_bytes()[:8], "little") if path.exists() else 0


def main(folder: Path) -> None:
    """Run until killed."""
    clock, marks, loop, sink = SystemClock(), Marks(folder, BOOT), QueueLoop(), FileSink(folder / "consumed")
    spool = Spool(Outbox(folder, ROOMY, clock, marks, boot_id=BOOT), marks, cast("Loop", loop), clock, BOOT, print)
    sink.spool = spool
    spool.start(sink)
    spool.pending(Request(1, START, PAGE))
    released = os.open(folder / "released", os.O_WRONLY | os.O_CREAT)
    at = max(position(folder), spool.cursor(RING))
    os.write(1, b"started\n")
    waiting = 0
    while True:
        end = at + random.randint(1, 20)
        records = [event(spool.next_seq(), n=n) for n in range(at, end)]

        def done(end: int = end) -> None:
            os.pwrite(released, end.to_bytes(8, "little"), 0)
            os.write(1, b"%d\n" % end)

        spool.append(records, {RING: end}, done)
        at = end
        waiting += 1
        while waiting and (not loop.jobs.empty() or waiting > 10 or random.random() < 0.5):
            loop.jobs.get()()
            waiting -= 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
