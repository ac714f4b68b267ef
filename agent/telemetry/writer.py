"""What a transaction of the outbox writes: records with their numbers, gap records, delivery marks.

All of it runs inside `Database.change`; numbers come from the ledger's draft: they are given out with the commit or not at all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from agent.model import Data
from agent.ports import Clock
from agent.telemetry.bounds import Gap, Gaps, gap_record
from agent.telemetry.database import DELIVERED, PENDING, QUARANTINED, Database
from agent.telemetry.marks import Marks
from agent.telemetry.messages import EVENT, GAP, LANES, METRICS, Message, encode

NUMBER = "number"  # the sequence of Event.seq


class Writer:
    """Writes for one boot into one database; `state` is what new records begin as (pending, or history at once)."""

    def __init__(self, store: Database, marks: Marks, clock: Clock, boot_id: str, state: int) -> None:
        self._store, self._marks, self._clock = store, marks, clock
        self._boot_id, self._state = boot_id, state

    def last(self, stream: str) -> int:
        """Give the last number of `stream` in this boot, by the ledger or by the marks in runtime_dir."""
        return max(self._store.ledger.get(self._sequence(stream)), self._marks.last(stream))

    def note_marks(self) -> None:
        """After the commit, before anything is sent: have the numbers on file outside the outbox too."""
        self._marks.raise_to({stream: self._store.ledger.get(self._sequence(stream)) for stream in (EVENT, GAP, NUMBER)})

    def record(self, record: Data, body: bytes) -> Message:
        """Put one envelope on the event stream."""
        envelope = str(record.get("record", "event"))
        number = record.get("seq")
        if envelope == "event" and isinstance(number, int):
            self._store.ledger.set(self._sequence(NUMBER), max(number, self._store.ledger.get(self._sequence(NUMBER))))
        message = Message(0, EVENT, self._boot_id, self._next(EVENT), envelope, self._wall(record), body)
        return self._store.insert(message, _kind(record, envelope), self._state)

    def sample(self, message: Message) -> Message:
        """Put one metrics sample, which has its number already, into the backlog."""
        return self._store.insert(message, METRICS, PENDING)

    @property
    def drop_key(self) -> str:
        """The ledger's name for the monotonic time (ns) of the newest drop in this boot."""
        return self._sequence("dropped_ns")

    def passed_over(self, lost: int, reason: str) -> list[Message]:
        """Give `lost` records that were never written their numbers, and the gap record that explains the hole."""
        if not lost:
            return []
        last = self._next(EVENT, lost)
        self._store.ledger.add("dropped", lost)
        return self.dropped({(EVENT, self._boot_id): Gap(last - lost + 1, last, lost)}, reason)

    def dropped(self, gaps: Gaps, reason: str) -> list[Message]:
        """Put the gap records of what was dropped, and note when that was."""
        if gaps:
            self._store.ledger.set(self.drop_key, self._clock.mono_ns())
        return self.gaps(gaps, reason)

    def gaps(self, gaps: Gaps, reason: str) -> list[Message]:
        """Put one gap record for each stream and boot."""
        made = []
        for (stream, boot_id), gap in gaps.items():
            body = encode(gap_record(stream, boot_id, gap, reason))
            message = Message(0, GAP, self._boot_id, self._next(GAP), GAP, self._clock.wall(), body)
            made.append(self._store.insert(message, GAP, self._state))
        return made

    def deliver(self, ids: Sequence[int]) -> None:
        """Mark what the broker has; metrics are of no more use and go."""
        for number in ids:
            if row := self._leaves_backlog(number):
                gone = row[0] == LANES.index(METRICS)
                self._store.db.execute(
                    "DELETE FROM message WHERE id = ?1" if gone else "UPDATE message SET state = ?2 WHERE id = ?1",
                    (number,) if gone else (number, DELIVERED),
                )

    def quarantine(self, number: int, reason: str) -> list[Message]:
        """Take a message that no broker will accept out of the backlog."""
        row = self._leaves_backlog(number)
        if row is None:
            return []
        lane, boot_id, seq = row
        self._store.db.execute("UPDATE message SET state = ? WHERE id = ?", (QUARANTINED, number))
        self._store.ledger.add("quarantined", 1)
        return self.gaps({(LANES[lane], boot_id): Gap(seq, seq, 1)}, reason)

    def _leaves_backlog(self, number: int) -> tuple[int, str, int] | None:
        """Take a pending row out of the counts; gives its lane, boot and seq, None if it is not pending."""
        sql = "SELECT lane, boot_id, seq, length(body) FROM message WHERE id = ? AND state = ?"
        row = self._store.db.execute(sql, (number, PENDING)).fetchone()
        if row is None:
            return None
        self._store.ledger.add("backlog.rows", -1)
        self._store.ledger.add("backlog.bytes", -row[3])
        return row[0], row[1], row[2]

    def _sequence(self, stream: str) -> str:
        return f"{stream}/{self._boot_id}"

    def _next(self, stream: str, n: int = 1) -> int:
        number = self.last(stream) + n
        self._store.ledger.set(self._sequence(stream), number)
        return number

    def _wall(self, record: Data) -> float:
        wall = record.get("t_wall")
        if isinstance(wall, (int, float)) and math.isfinite(wall):
            return float(wall)
        return self._clock.wall()


def _kind(record: Data, envelope: str) -> str:
    """Give the dotted kind of an event, or the envelope and what it is about: `finding.timer_late`, `outcome.snapshot`."""
    about = record.get("detector") or record.get("action")
    return str(record.get("kind") or (f"{envelope}.{about}" if about else envelope))[:200]
