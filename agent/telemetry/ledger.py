"""The small numbers of the outbox: sequences, counters, ring positions. Changed in a draft, kept with the commit.

They live in the table `meta`, all on one page, and in memory, so that nothing here depends on the length of the backlog.
"""

from __future__ import annotations

import sqlite3

RINGS_KEPT = 64  # a probe has one ring; each load of its object makes a new one
_RING = "ring/"


class Ledger:
    """`counts` by name, and `rings` (positions by ring key, least recently moved first)."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.rings: dict[str, int] = {}
        self._counts: dict[str, int] = {}
        self._rings: dict[str, int] = {}

    def load(self, db: sqlite3.Connection) -> None:
        """Take over what the database holds, beside what is here already (which wins)."""
        for key, value in db.execute("SELECT key, value FROM meta ORDER BY touched, key"):
            if key.startswith(_RING):
                self.rings.setdefault(key.removeprefix(_RING), value)
            else:
                self.counts.setdefault(key, value)

    def get(self, key: str) -> int:
        """Give a count as the draft has it; 0 if there is none."""
        return self._counts.get(key, self.counts.get(key, 0))

    def set(self, key: str, value: int) -> None:
        """Put a count into the draft."""
        self._counts[key] = value

    def add(self, key: str, n: int) -> int:
        """Add to a count in the draft; gives the sum."""
        self._counts[key] = total = self.get(key) + n
        return total

    def move(self, ring: str, position: int) -> None:
        """Put the position of a ring into the draft."""
        self._rings[ring] = position

    def save(self, db: sqlite3.Connection) -> None:
        """Write the draft into the open transaction."""
        stamp = self.add("moves", 1) if self._rings else 0
        rows = [(key, value, 0) for key, value in self._counts.items()]
        rows += [(_RING + ring, position, stamp) for ring, position in self._rings.items()]
        db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?, ?)", rows)
        db.executemany("DELETE FROM meta WHERE key = ?", [(_RING + ring,) for ring in self._surplus()])

    def adopt(self) -> None:
        """Take the draft for the truth: its transaction is committed."""
        surplus = self._surplus()
        self.counts.update(self._counts)
        for ring, position in self._rings.items():
            self.rings.pop(ring, None)
            self.rings[ring] = position
        for ring in surplus:
            self.rings.pop(ring, None)
        self.discard()

    def discard(self) -> None:
        """Forget the draft: its transaction was rolled back."""
        self._counts = {}
        self._rings = {}

    def heir(self) -> Ledger:
        """Give a ledger for a new file: everything but the backlog goes on, and is in the draft to be written there."""
        heir = Ledger()
        heir.counts = {key: n for key, n in self.counts.items() if not key.startswith("backlog.")}
        heir.rings = dict(self.rings)
        heir._counts, heir._rings = dict(heir.counts), dict(heir.rings)
        return heir

    def _surplus(self) -> list[str]:
        """Rings to forget: those that have not moved for longest."""
        order = [ring for ring in self.rings if ring not in self._rings] + list(self._rings)
        return order[: max(0, len(order) - RINGS_KEPT)]
