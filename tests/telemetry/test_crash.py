"""The promise of the outbox: kill -9 at any point loses nothing and repeats nothing."""

from __future__ import annotations

from pathlib import Path

from tests.telemetry.crash import crash_loop


def test_thirty_kills_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    """Against what the child declared durable and against the ring: 0 lost, 0 duplicated after dedup by (stream, seq)."""
    books = crash_loop(tmp_path, 30)
    assert (books.lost, books.duplicated) == (0, 0)
    assert books.committed >= books.declared > 0
