"""Keeping the outbox within its bounds: what is dropped, in which order, and the gap records that say so.

Three bounds: bytes of the file, age, and head-room on its file system. Undelivered metrics go first, then delivered events,
and only then undelivered events (for bytes and age; lack of head-room never drops these, it only stops the growth, since
another program's log would eat the space anyway). Delivered metrics are not kept at all.

Age is judged by the wall clock, so rows that were stamped before the clock was set (`PLAUSIBLE`) do not age, and a clock
that jumps from 1970 to today does not empty the backlog.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

from agent.model import Data
from agent.telemetry.database import DELIVERED, PAGE, PENDING, QUARANTINED, Database
from agent.telemetry.messages import EVENT, GAP, LANES, METRICS

PLAUSIBLE = 1_704_067_200.0  # 2024-01-01: before this the clock of a gateway has not been set
_BATCH = 64
_EVENT, _GAP, _METRICS = (LANES.index(stream) for stream in (EVENT, GAP, METRICS))

Order: TypeAlias = "tuple[tuple[int, int], ...]"
# (state, lane), least wanted first.
_HISTORY: Order = ((DELIVERED, _EVENT), (QUARANTINED, _EVENT), (DELIVERED, _GAP), (QUARANTINED, _GAP))
SHED: Order = ((PENDING, _METRICS), *_HISTORY)
ALL: Order = (*SHED, (PENDING, _EVENT), (PENDING, _GAP))


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of the outbox. Beside `max_bytes` for the file stand the log and a reserve, together about 1.5 MiB."""

    max_bytes: int = 64 << 20
    max_age_s: float = 7 * 86400.0
    headroom_bytes: int = 64 << 20

    @property
    def hard_pages(self) -> int:
        """Where SQLite itself stops the file from growing."""
        return max(32, self.max_bytes // PAGE)

    @property
    def soft_pages(self) -> int:
        """Above this, rows are dropped: early enough that a batch never meets the hard stop."""
        return self.hard_pages * 7 // 8

    @property
    def step_pages(self) -> int:
        """How much is dropped at once."""
        return max(4, self.hard_pages // 32)


class Row(NamedTuple):
    """What must be known of a row to drop it."""

    id: int
    lane: int
    boot_id: str
    seq: int
    size: int
    t_wall: float


@dataclass(slots=True)
class Gap:
    """Messages of one stream and boot that will never come: those of `first`..`last` that nobody has.

    They are `count`, None if that cannot be known.
    """

    first: int
    last: int
    count: int | None = None

    def add(self, seq: int) -> None:
        """Take one more in."""
        self.first = min(self.first, seq)
        self.last = max(self.last, seq)
        self.count = (self.count or 0) + 1


Gaps: TypeAlias = "dict[tuple[str, str], Gap]"


def gap_record(stream: str, boot_id: str, gap: Gap, reason: str) -> Data:
    """Give the payload of a gap record."""
    span: Data = {"first_seq": gap.first, "last_seq": gap.last, "count": gap.count}
    return {"record": "gap", "stream": stream, "boot_id": boot_id, **span, "reason": reason}


def free_bytes(folder: Path) -> int:
    """Give the bytes that an unprivileged process may still write on the file system of `folder`."""
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def oldest(db: sqlite3.Connection, state: int, lane: int, after: int = 0) -> list[Row]:
    """Give the next rows of a state and lane, in the order of their ids."""
    sql = (
        "SELECT id, lane, boot_id, seq, length(body), t_wall FROM message "
        "WHERE state = ? AND lane = ? AND id > ? ORDER BY id LIMIT ?"
    )
    return [Row(*row) for row in db.execute(sql, (state, lane, after, _BATCH))]


def drop_pages(store: Database, pages: int, order: Order) -> Gaps:
    """Within a transaction: drop rows by `order` until `pages` more pages are free, or none is left."""
    gaps: Gaps = {}
    target = store.live_pages() - pages
    for state, lane in order:
        while store.live_pages() > target and (rows := oldest(store.db, state, lane)):
            drop(store, state, rows, gaps)
    return gaps


def drop_aged(store: Database, now: float, max_age_s: float) -> Gaps:
    """Within a transaction: drop what is older than `max_age_s` seconds at wall time `now`."""
    gaps: Gaps = {}
    for state, lane in ALL:
        after, fresh = 0, False
        while not fresh and (rows := oldest(store.db, state, lane, after)):
            after = rows[-1].id
            fresh = any(row.t_wall >= now - max_age_s for row in rows)
            drop(store, state, [row for row in rows if PLAUSIBLE <= row.t_wall < now - max_age_s], gaps)
    return gaps


def drop(store: Database, state: int, rows: Sequence[Row], gaps: Gaps) -> None:
    """Within a transaction: delete `rows`; those that nobody has yet are noted in `gaps` and counted."""
    store.db.executemany("DELETE FROM message WHERE id = ?", [(row.id,) for row in rows])
    if state != PENDING:
        return
    for row in rows:
        gaps.setdefault((LANES[row.lane], row.boot_id), Gap(row.seq, row.seq)).add(row.seq)
    store.ledger.add("backlog.rows", -len(rows))
    store.ledger.add("backlog.bytes", -sum(row.size for row in rows))
    store.ledger.add("dropped", len(rows))
