"""Reading what the outbox holds without being its owner: for `agentctl events`, also with agentd dead, also by root.

Nothing is created or written. SQLite would make `-shm` and `-wal` files for a reader in WAL mode, and if root did that,
agentd could not open its own outbox any more; hence the two ways of `_open`.
"""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from agent.errors import StoreError
from agent.model import Data
from agent.telemetry.database import DELIVERED, FILE, QUARANTINED
from agent.telemetry.messages import LANES, METRICS

_METRICS = LANES.index(METRICS)


def recent(folder: Path, limit: int, since_wall: float | None = None, kind: str | None = None) -> list[Data]:
    """Give the newest `limit` records in the outbox of `folder`, oldest first; none if there is no outbox.

    Each is the record as it was appended, with `boot_id`, `t_wall`, `stream_seq` and `delivered` added where it lacks them.
    `since_wall` leaves out what is older; `kind` keeps one kind or family (`timer` has `timer.late`). Raises StoreError.
    """
    path = folder / FILE
    try:
        if not path.exists() or path.stat().st_size == 0:
            return []
        with closing(_open(path)) as db:
            return select(db, limit, since_wall, kind)
    except PermissionError as error:
        raise StoreError(f"{path}: permission denied; run as root or as a member of the group gatewarden") from error
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"{path}: {error}; if agentd does not run, it sets a damaged file aside at its next start") from error


def select(db: sqlite3.Connection, limit: int, since_wall: float | None, kind: str | None) -> list[Data]:
    """Run the query of `recent` on an open connection."""
    family = f"{kind}." if kind else ""
    rows = db.execute(
        "SELECT state, boot_id, seq, t_wall, body FROM message WHERE lane != ? AND t_wall >= ? "
        "AND (? = '' OR kind = ? OR substr(kind, 1, ?) = ?) ORDER BY id DESC LIMIT ?",
        (_METRICS, -1e300 if since_wall is None else since_wall, family, kind, len(family), family, max(0, limit)),
    ).fetchall()
    return [_record(*row) for row in reversed(rows)]


def _record(state: int, boot_id: str, seq: int, t_wall: float, body: bytes) -> Data:
    try:
        record = json.loads(body)
    except (ValueError, TypeError, RecursionError):
        record = None
    known = record if isinstance(record, dict) else {"record": "unreadable"}
    delivered = state == DELIVERED
    place: Data = {"boot_id": boot_id, "t_wall": t_wall, "stream_seq": seq, "delivered": delivered}
    return {**place, **known, **({"quarantined": True} if state == QUARANTINED else {})}


def _open(path: Path) -> sqlite3.Connection:
    """Open `path` in a way that leaves no trace.

    With a log and its index beside it (agentd runs, or was killed): read-only, the index too. Without a log (agentd ended
    well): as an unchanging file. A log without its index cannot be read without making one: its newest rows are left out.
    """
    # Not by opening it: a close() of any other descriptor would drop the locks that SQLite holds in this process.
    if not os.access(path, os.R_OK):
        raise PermissionError
    log, index = path.with_name(f"{path.name}-wal"), path.with_name(f"{path.name}-shm")
    live = log.exists() and index.exists()
    how = "mode=ro&readonly_shm=1" if live else "mode=ro&immutable=1"
    db = sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True, timeout=2.0, isolation_level=None)
    db.execute("PRAGMA query_only = ON")
    return db
