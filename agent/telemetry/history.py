"""Reading what the outbox holds without being its owner: for `agentctl events`, also with agentd dead, also by root.

Nothing is created or written. SQLite would make `-shm` and `-wal` files for a reader in WAL mode, and if root did that,
agentd could not open its own outbox any more; hence the two ways of `_open`.
"""

from __future__ import annotations

import errno
import json
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from agent import regular
from agent.errors import StoreError
from agent.model import Data
from agent.telemetry.database import DELIVERED, FILE, PARTS, QUARANTINED
from agent.telemetry.messages import LANES, METRICS

_METRICS = LANES.index(METRICS)


class Found(NamedTuple):
    """Records, oldest first; `cut` if there are older ones within the limit that are left out."""

    records: list[Data]
    cut: bool = False


def exists(folder: Path) -> bool:
    """Whether there is an outbox in `folder`, readable or not."""
    try:
        found = (folder / FILE).lstat()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return found.st_size > 0 or not stat.S_ISREG(found.st_mode)


def recent(
    folder: Path,
    limit: int,
    since_wall: float | None = None,
    kind: str | None = None,
    *,
    wanted: Callable[[str], bool] | None = None,
    most_bytes: int | None = None,
) -> Found:
    """Give the newest `limit` records in the outbox of `folder`; none if there is no outbox.

    Each is the record as it was appended, with `boot_id`, `t_wall`, `stream_seq` and `delivered` added where it lacks them.
    `since_wall` leaves out what is older; `kind` keeps one kind or family (`timer` has `timer.late`), `wanted` the kinds that
    it likes. Of records that have more than `most_bytes` together the newest are given. Raises StoreError.
    """
    path = folder / FILE
    try:
        if not exists(folder):
            return Found([])
        _require(path)
        with closing(_open(path)) as db:
            return select(db, limit, since_wall, kind, wanted=wanted, most_bytes=most_bytes)
    except PermissionError as error:
        raise StoreError(f"{path}: permission denied; run as root or as a member of the group gatewarden") from error
    except (sqlite3.Error, OSError) as error:
        said = getattr(error, "strerror", None) or error
        raise StoreError(f"{path}: {said}; if agentd does not run, it sets a damaged file aside at its next start") from error


def select(
    db: sqlite3.Connection,
    limit: int,
    since_wall: float | None,
    kind: str | None,
    *,
    wanted: Callable[[str], bool] | None = None,
    most_bytes: int | None = None,
) -> Found:
    """Run the query of `recent` on an open connection. No more than what is given is held in memory at any time."""
    family = f"{kind}." if kind else ""
    rows = db.execute(
        "SELECT state, boot_id, seq, t_wall, kind, body FROM message WHERE lane != ? AND t_wall >= ? "
        "AND (? = '' OR kind = ? OR substr(kind, 1, ?) = ?) ORDER BY id DESC",
        (_METRICS, -1e300 if since_wall is None else since_wall, family, kind, len(family), family),
    )
    records: list[Data] = []
    size, cut = 0, False
    while len(records) < limit and not cut and (row := rows.fetchone()):
        state, boot_id, seq, t_wall, name, body = row
        if wanted is None or wanted(name):
            size += len(body)
            cut = most_bytes is not None and size > most_bytes
            records += [] if cut else [_record(state, boot_id, seq, t_wall, body)]
    rows.close()
    return Found(records[::-1], cut)


def _record(state: int, boot_id: str, seq: int, t_wall: float, body: bytes) -> Data:
    try:
        record = json.loads(body)
    except (ValueError, TypeError, RecursionError):
        record = None
    known = record if isinstance(record, dict) else {"record": "unreadable"}
    delivered = state == DELIVERED
    place: Data = {"boot_id": boot_id, "t_wall": t_wall, "stream_seq": seq, "delivered": delivered}
    return {**place, **known, **({"quarantined": True} if state == QUARANTINED else {})}


def _require(path: Path) -> None:
    for tail in PARTS:
        if kind := regular.odd(path.with_name(path.name + tail)):
            raise OSError(errno.EINVAL, f"{path.name}{tail} is {kind}, not a regular file")


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
