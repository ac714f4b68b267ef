"""The durable core: records and ring positions, committed together, kept until delivered and then as history.

One file (`state_dir/outbox.db`, see `database.py`), one owner: every method is synchronous and belongs to one thread.
Three lanes: `event` (all four envelopes), `gap` (what was dropped), `metrics` (samples that could not be sent at once).
A ring buffer's position is committed in the transaction of the records that were read up to it. A reader that starts at
`cursor(ring)` therefore neither loses nor repeats a record, wherever the process was killed.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from agent.model import Data
from agent.ports import Clock
from agent.telemetry import bounds, history
from agent.telemetry.bounds import Gap, Limits
from agent.telemetry.database import DELIVERED, FILE, PAGE, PENDING, WAL_BYTES, Database, code, failed, lock
from agent.telemetry.ledger import Ledger
from agent.telemetry.marks import Marks
from agent.telemetry.messages import BODY_LIMIT, EVENT, GAP, LANES, Message, encode
from agent.telemetry.writer import NUMBER, Writer

T = TypeVar("T")

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_NO_ROOM = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR}
_RESERVE = 2 * WAL_BYTES  # pre-allocated: on a full disk, room to fold the log back and to log the deletions
_FLOOR_PAGES = (256 << 10) // PAGE  # lack of head-room never holds the file below this
_FREED_PAGES = 64  # free pages that are worth giving back when head-room is short
_SLACK_PAGES = (1 << 20) // PAGE  # free pages kept for reuse; more than this is given back


class Outbox:
    """The outbox in `folder`, for the boot `boot_id`.

    `deliver=False` (no broker configured) keeps records as history at once. `incidents` collects what an operator should
    know, in words (a damaged file was set aside); whoever owns the outbox takes them out. Raises StoreError.
    """

    def __init__(self, folder: Path, limits: Limits, clock: Clock, marks: Marks, *, boot_id: str, deliver: bool = True) -> None:
        self.incidents: list[str] = []
        self._folder, self._limits, self._clock, self._marks = folder, limits, clock, marks
        self._boot_id = boot_id
        self._state = PENDING if deliver else DELIVERED
        self._made: list[Message] = []  # gap records that were written while something else was wanted
        self._heir: tuple[Ledger, str] | None = (Ledger(), "")  # what the next file begins with, while none is open
        self._lock = lock(folder)
        try:
            self._open()
        except BaseException:
            os.close(self._lock)
            raise
        self._keep_reserve()

    def next_number(self) -> int:
        """Give the first number that no event of this boot has yet."""
        return self._writer.last(NUMBER) + 1

    def cursor(self, ring: str) -> int:
        """Give the last committed position of `ring` (a key such as `<boot_id>/<map id>`), 0 if there is none."""
        return self._store.ledger.rings.get(ring, 0)

    def append(
        self,
        records: Sequence[Data],
        cursors: Mapping[str, int],
        *,
        lost: int = 0,
        reason: str = "memory",
        samples: Sequence[Message] = (),
        delivered: Sequence[int] = (),
    ) -> list[Message]:
        """Commit it all in one transaction; give the messages that it made, gap records included.

        `lost` records before these were given up: their numbers are passed over, and a gap record gives the `reason`.
        `samples` are metrics that were not delivered from memory. `delivered` are ids that the broker has; delivered metrics
        are of no more use and go. Raises StoreError with everything as it was before.
        Of a batch that would take more than a quarter of the outbox, the tail goes without its data.
        """
        bodies = self._bodies(records)

        def work() -> list[Message]:
            with self._store.change() as ledger:
                made = self._writer.passed_over(lost, reason)
                made += [self._writer.record(record, body) for record, body in bodies]
                made += [self._writer.sample(sample) for sample in samples]
                self._writer.deliver(delivered)
                for ring, position in cursors.items():
                    ledger.move(ring, position)
            return made

        size = sum(len(body) for _, body in bodies) + sum(len(sample.body) for sample in samples)
        made = self._safely(work, 16 + size * 5 // (4 * PAGE))
        self._bound()
        return self._noted(made)

    def quarantine(self, number: int, reason: str) -> list[Message]:
        """Take a message that the broker will never accept out of the backlog; gives the gap record. Raises StoreError."""

        def work() -> list[Message]:
            with self._store.change():
                return self._writer.quarantine(number, reason)

        return self._noted(self._safely(work))

    def pending(self, after: tuple[int, int], n: int) -> list[Message]:
        """Give the next `n` undelivered messages behind the place `after`, events first, oldest first. Raises StoreError."""
        sql = (
            "SELECT id, lane, boot_id, seq, record, t_wall, body FROM message "
            "WHERE state = ? AND (lane, id) > (?, ?) ORDER BY lane, id LIMIT ?"
        )
        rows = self._safely(lambda: self._store.db.execute(sql, (PENDING, *after, n)).fetchall())
        return [Message(row[0], LANES[row[1]], *row[2:]) for row in rows]

    def recent(self, limit: int, since_wall: float | None = None, kind: str | None = None) -> list[Data]:
        """Give the newest `limit` records as `history.recent` does. Raises StoreError."""
        return self._safely(lambda: history.select(self._store.db, limit, since_wall, kind).records)

    def tidy(self) -> list[Message]:
        """Bring it within its bounds (age too), give free space back; gives gap records for what went. Raises StoreError."""

        def work() -> list[Message]:
            with self._store.change():
                return self._writer.dropped(bounds.drop_aged(self._store, self._clock.wall(), self._limits.max_age_s), "age")

        made = self._safely(work)
        self._bound()
        self._safely(self._give_back)
        self._keep_reserve()
        return self._noted(made)

    def count(self, name: str) -> int:
        """Give a counter: `backlog.rows`, `backlog.bytes`, `dropped` or `quarantined`."""
        return self._store.ledger.counts.get(name, 0)

    def dropped_ns(self) -> int | None:
        """Give the monotonic time of the newest drop in this boot, None if there was none."""
        return self._store.ledger.counts.get(self._writer.drop_key)

    def oldest_wall(self) -> float | None:
        """Give the wall time of the oldest undelivered message, None if all are delivered. Raises StoreError."""
        sql = "SELECT t_wall FROM message WHERE state = ? AND lane = ? ORDER BY id LIMIT 1"

        def work() -> float | None:
            rows = [self._store.db.execute(sql, (PENDING, lane)).fetchone() for lane in range(len(LANES))]
            return min((float(row[0]) for row in rows if row), default=None)

        return self._safely(work)

    def file_bytes(self) -> int:
        """Give the size of file and log."""
        parts = (self._folder / FILE, self._folder / f"{FILE}-wal")
        return sum(part.stat().st_size for part in parts if part.exists())

    def close(self) -> None:
        """Close the file and let others have it."""
        self._store.close()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _bodies(self, records: Sequence[Data]) -> list[tuple[Data, bytes]]:
        bodies: list[tuple[Data, bytes]] = []
        left = self._limits.max_bytes // 4
        for record in records:
            body = encode(record, min(left, BODY_LIMIT))
            left = max(0, left - len(body))
            bodies.append((record, body))
        return bodies

    def _noted(self, made: list[Message]) -> list[Message]:
        """Have the numbers of what was made on file; give it with what was made on the side."""
        made = [*self._made, *made]
        self._made = []
        self._writer.note_marks()
        return made

    def _open(self) -> None:
        if self._heir is None:
            return
        self._store = Database(self._folder, self._heir[0], self._limits.max_bytes, self._heir[1])
        self._heir = None
        self._writer = Writer(self._store, self._marks, self._clock, self._boot_id, self._state)
        self._hold(self._limits.hard_pages)
        if self._store.damage:
            self.incidents.append(f"{self._folder / FILE} was set aside and begun anew: {self._store.damage}")
            last = {stream: self._writer.last(stream) for stream in (EVENT, GAP)}
            with self._store.change():
                gaps = {(stream, self._boot_id): Gap(1, seq, None) for stream, seq in last.items() if seq}
                self._made += self._writer.gaps(gaps, "damaged")

    def _safely(self, work: Callable[[], T], pages: int = 0) -> T:
        """Run `work`; once more after a damaged file was replaced, or `pages` pages were made free. Raises StoreError."""
        try:
            self._open()
            return work()
        except sqlite3.Error as error:
            if code(error) in _DAMAGED:
                self._renew(str(error))
            elif code(error) in _NO_ROOM:
                self._relieve(max(pages, 32))
            else:
                raise failed(self._folder, error) from error
        try:
            return work()
        except sqlite3.Error as error:
            raise failed(self._folder, error) from error

    def _renew(self, why: str) -> None:
        """Begin a new file in the place of one that turned out damaged; sequences and ring positions go on."""
        self._store.close()
        self._heir = self._store.ledger.heir(), why
        self._open()

    def _relieve(self, pages: int) -> None:
        """Make room on a full disk: the reserve pays for the log of the deletion."""
        with suppress(OSError):
            self._reserve.unlink()
        with suppress(sqlite3.Error):
            self._store.db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()
            self._hold_size()
        with suppress(sqlite3.Error):
            self._drop(pages, bounds.ALL, "disk")
            self._store.db.execute("PRAGMA wal_checkpoint(RESTART)").fetchall()

    def _bound(self) -> None:
        """Enforce bytes and head-room; cheap when there is nothing to do. What fails is tried again after the next commit."""
        with suppress(sqlite3.Error, OSError):
            while (over := self._store.live_pages() - self._limits.soft_pages) > 0:
                self._drop(min(max(over, self._limits.step_pages), 8 * self._limits.step_pages), bounds.ALL, "bytes")
            short = max(self._limits.headroom_bytes, 2 * _RESERVE) - bounds.free_bytes(self._folder)
            if short <= 0:
                self._hold(self._limits.hard_pages)
                return
            self._drop(short // PAGE + 1, bounds.SHED, "headroom")
            if self._store.number("freelist_count") >= _FREED_PAGES:
                self._store.shrink()
            self._hold_size()

    def _drop(self, pages: int, order: bounds.Order, reason: str) -> None:
        with self._store.change():
            made = self._writer.dropped(bounds.drop_pages(self._store, pages, order), reason)
        self._made += made

    def _hold_size(self) -> None:
        """Let the file grow no more, and have all its pages on disk: folding the log back then needs no more room."""
        pages = self._store.number("page_count")
        if (self._folder / FILE).stat().st_size < pages * PAGE:
            self._store.db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._hold(min(self._limits.hard_pages, max(pages, _FLOOR_PAGES)))

    def _hold(self, pages: int) -> None:
        self._store.db.execute(f"PRAGMA max_page_count = {pages}").fetchall()

    def _give_back(self) -> None:
        free = self._store.number("freelist_count")
        if free > max(_SLACK_PAGES, self._store.number("page_count") // 4):
            self._store.shrink()

    @property
    def _reserve(self) -> Path:
        return self._folder / "outbox.reserve"

    def _keep_reserve(self) -> None:
        """Have the reserve on disk; without room for it, there is none until the next tidy."""
        with suppress(OSError):
            if bounds.free_bytes(self._folder) > 2 * _RESERVE and not os.path.lexists(self._reserve):
                with self._reserve.open("xb") as file:  # follows no link
                    os.posix_fallocate(file.fileno(), 0, _RESERVE)
