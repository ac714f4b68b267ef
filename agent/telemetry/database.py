"""The SQLite file under the outbox: opening it soundly, setting a damaged one aside, one transaction at a time.

WAL with synchronous=FULL: a commit survives a power cut. `auto_vacuum=INCREMENTAL`, so that the file can shrink. Pages
that are freed are not overwritten (`secure_delete=OFF`: Debian's default of ON doubles what is written to flash).
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from agent import regular
from agent.errors import StoreError
from agent.telemetry.ledger import Ledger
from agent.telemetry.messages import LANES, Message

FILE = "outbox.db"
PAGE = 1024  # a commit of one event touches three pages: half the flash writes of 4096 (measured)
WAL_BYTES = 512 << 10  # beside the file: the log is folded back at this size, and cut to it
ASIDE_KEPT = 3
PARTS = ("", "-wal", "-shm")  # the file, its log, and the log's index
_SHORTEST = 512  # bytes; SQLite takes anything shorter for an empty file
CHECKED_WHOLE = 16 << 20  # bytes; reading more than this from an SD card at start takes seconds

PENDING, DELIVERED, QUARANTINED = 0, 1, 2

_APPLICATION = 0x47574F42  # "GWOB"
_VERSION = 1
_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE message (id INTEGER PRIMARY KEY, state INTEGER NOT NULL, lane INTEGER NOT NULL, boot_id TEXT NOT NULL,
    seq INTEGER NOT NULL, record TEXT NOT NULL, kind TEXT NOT NULL, t_wall REAL NOT NULL, body BLOB NOT NULL) STRICT;
CREATE INDEX by_state ON message (state, lane, id);
CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL, touched INTEGER NOT NULL) STRICT, WITHOUT ROWID;
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
COMMIT;
"""
_SETTINGS = f"""
PRAGMA page_size = {PAGE};
PRAGMA auto_vacuum = INCREMENTAL;
PRAGMA journal_mode = WAL;
PRAGMA synchronous = FULL;
PRAGMA secure_delete = OFF;
PRAGMA cache_size = -256;
PRAGMA temp_store = MEMORY;
PRAGMA journal_size_limit = {WAL_BYTES};
PRAGMA wal_autocheckpoint = {WAL_BYTES // PAGE};
"""
# Primary result codes that say something about the surroundings, not about the file's contents.
_SURROUNDINGS = {
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}


def code(error: sqlite3.Error) -> int:
    """Give the primary result code of `error`, 0 if Python raised it by itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


def failed(folder: Path, error: Exception) -> StoreError:
    """Translate `error`: where it happened and what to do."""
    said = getattr(error, "strerror", None) or str(error)
    with suppress(OSError):
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            said = "read-only file system"
    return StoreError(
        f"{folder}: {said}; it must be a directory on a file system with free space that this user can write "
        "(paths.state_dir in agent.toml)"
    )


class Database:
    """One open outbox file: its connection and its ledger. `damage` says why a former file was set aside, or is empty."""

    def __init__(self, folder: Path, ledger: Ledger, keep_bytes: int, damage: str = "") -> None:
        """Open or make the file in `folder`; of damaged ones, at most three and `keep_bytes` are kept. Raises StoreError.

        `damage` is what is known already to be wrong with it.
        """
        path = folder / FILE
        self.ledger = ledger
        try:
            self.damage = damage if damage and os.path.lexists(path) else _unsound(path)
            if self.damage:
                set_aside(folder, keep_bytes)
            self.db = _connect(path)
            ledger.load(self.db)
        except (sqlite3.Error, OSError) as error:
            raise failed(folder, error) from error

    @contextmanager
    def change(self) -> Iterator[Ledger]:
        """One transaction, kept if the block ends well. What fails leaves file and ledger as they were."""
        try:
            self.db.execute("BEGIN IMMEDIATE")
            yield self.ledger
            self.ledger.save(self.db)
            self.db.execute("COMMIT")
        except BaseException:
            self.ledger.discard()
            if self.db.in_transaction:
                with suppress(sqlite3.Error):
                    self.db.execute("ROLLBACK")
            raise
        self.ledger.adopt()

    def insert(self, message: Message, kind: str, state: int) -> Message:
        """Put `message` into the open transaction; gives it with its id."""
        number = self.ledger.add("id", 1)
        head = (number, state, LANES.index(message.stream), message.boot_id, message.seq, message.record)
        values = (*head, kind, message.t_wall, message.body)
        self.db.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values)
        if state == PENDING:
            self.ledger.add("backlog.rows", 1)
            self.ledger.add("backlog.bytes", len(message.body))
        return replace(message, id=number)

    def number(self, pragma: str) -> int:
        """Give the value of a numeric pragma."""
        return int(self.db.execute(f"PRAGMA {pragma}").fetchone()[0])

    def live_pages(self) -> int:
        """Give the number of pages in use."""
        return self.number("page_count") - self.number("freelist_count")

    def shrink(self) -> None:
        """Give free pages and the log back to the file system."""
        while free := self.number("freelist_count"):
            self.db.execute("PRAGMA incremental_vacuum(1024)").fetchall()
            if self.number("freelist_count") >= free:
                break
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Fold the log back and close."""
        with suppress(sqlite3.Error):
            self.db.close()


def _connect(path: Path) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=2.0, isolation_level=None, check_same_thread=False)
    try:
        db.executescript(_SETTINGS)
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.executescript(_SCHEMA)
    except BaseException:
        db.close()
        raise
    return db


def _unsound(path: Path) -> str:
    """Say what is wrong with the file at `path`; empty if it is sound, empty or absent. Bounded in time."""
    for tail in PARTS:  # SQLite would follow a link, and as root make its target; a FIFO would hold it up
        if kind := regular.odd(path.with_name(path.name + tail)):
            return f"{path.name}{tail} is {kind}, not a regular file"
    if not path.exists() or path.stat().st_size == 0:
        return ""
    with path.open("rb") as file:  # before SQLite has it open: a later close() here would drop its locks
        head = file.read(_SHORTEST)
    if len(head) < _SHORTEST or not head.startswith(b"SQLite format 3\0"):
        return "not a SQLite file, or cut short"
    try:
        with closing(sqlite3.connect(path, timeout=2.0, isolation_level=None)) as db:
            return _fault(db, path.stat().st_size)
    except (sqlite3.DatabaseError, ValueError) as error:
        if isinstance(error, sqlite3.Error) and code(error) in _SURROUNDINGS:
            raise
        return str(error)


def _fault(db: sqlite3.Connection, size: int) -> str:
    tables = db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    marks = db.execute("PRAGMA application_id").fetchone()[0], db.execute("PRAGMA user_version").fetchone()[0]
    if tables and marks != (_APPLICATION, _VERSION):
        return f"not an outbox of this version (application {marks[0]:#x}, version {marks[1]})"
    if size <= CHECKED_WHOLE:
        verdict = str(db.execute("PRAGMA quick_check(1)").fetchone()[0])
        if verdict != "ok":
            return verdict[:200]
    if tables:
        for order in ("id", "id DESC", "state, lane, id", "state DESC, lane DESC, id DESC"):
            db.execute(f"SELECT id, lane, seq, length(body) FROM message ORDER BY {order} LIMIT 1").fetchall()  # noqa: S608
        db.execute("SELECT key, value, touched FROM meta").fetchall()
    return ""


def set_aside(folder: Path, keep_bytes: int) -> None:
    """Rename the outbox with its log to `outbox.db.corrupt-<n>`; the oldest of these go beyond three or `keep_bytes`."""
    old = sorted((path for path in folder.glob(f"{FILE}.corrupt-*") if path.suffix[9:].isdigit()), key=_aside_number)
    number = _aside_number(old[-1]) + 1 if old else 1
    target = folder / f"{FILE}.corrupt-{number}"
    for tail in PARTS:
        with suppress(FileNotFoundError):
            (folder / f"{FILE}{tail}").rename(folder / f"{target.name}{tail}")
    kept = [*old, target]
    while len(kept) > ASIDE_KEPT or (len(kept) > 1 and sum(_size(path) for path in kept) > keep_bytes):
        _remove(kept.pop(0))


def _aside_number(path: Path) -> int:
    return int(path.suffix.removeprefix(".corrupt-"))


def _parts(path: Path) -> list[Path]:
    parts = (path.with_name(path.name + tail) for tail in PARTS)
    return [part for part in parts if os.path.lexists(part) and regular.odd(part) != "a directory"]


def _size(path: Path) -> int:
    return sum(part.lstat().st_size for part in _parts(path))


def _remove(path: Path) -> None:
    for part in _parts(path):
        with suppress(OSError):
            part.unlink()


def lock(folder: Path) -> int:
    """Hold `folder` for this process alone (until the fd is closed, or it dies). Raises StoreError if another holds it."""
    path = folder / "outbox.lock"
    try:
        if kind := regular.odd(path):
            raise StoreError(f"{path}: {kind}, not a regular file; remove it")
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o640)
    except OSError as error:
        raise failed(folder, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise StoreError(f"{folder}: another agentd uses this state_dir; stop it, or set another paths.state_dir") from error
    return fd
