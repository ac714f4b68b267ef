"""Folders that appear whole or not at all, few enough and small enough (`ports.Archive`)."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

from agent.config import redact
from agent.errors import StoreError

ENTRIES = 20
TOTAL = 16 * 1024 * 1024
FILE = 256 * 1024  # of one file; what is longer is cut and says so
_TEMPORARY = ".new-"
_NAME = 96
_TURN_S = 3.0  # what another thread's entry may take before this one is given up


def safe_name(text: str) -> str:
    """Give `text` as a file name: letters, digits, `.`, `_`, `-`, never hidden, at most 96 characters."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)[:_NAME].lstrip(".") or "_"


class SnapshotFolder:
    """At most `entries` folders of at most `total` bytes together in `path`; one process writes (any thread), any may list."""

    def __init__(self, path: Path, entries: int = ENTRIES, total: int = TOTAL) -> None:
        self.path = path
        self._entries = entries
        self._total = total
        self._turn = threading.Lock()

    def names(self) -> list[str]:
        """Give the whole entries, oldest first (their names begin with a time)."""
        with contextlib.suppress(OSError):
            return sorted(item.name for item in self.path.iterdir() if item.is_dir() and not item.name.startswith("."))
        return []

    def keep(self, name: str, files: Mapping[str, str]) -> str:
        """Add the entry `name` durably and give its path; the oldest ones make room first. URLs lose their credentials.

        Raises StoreError, with nothing half-written listed then.
        """
        blocks = {safe_name(key): _block(text) for key, text in files.items()}
        if not self._turn.acquire(timeout=_TURN_S):
            raise StoreError(f"{self.path}: cannot keep {name}: the entry before it is still being written")
        try:
            return self._kept(name, blocks)
        finally:
            self._turn.release()

    def _kept(self, name: str, blocks: Mapping[str, bytes]) -> str:
        temporary = self.path / f"{_TEMPORARY}{os.getpid()}"
        try:
            self.path.mkdir(mode=0o750, parents=True, exist_ok=True)
            self._make_room(sum(map(len, blocks.values())))
            temporary.mkdir(mode=0o750)
            for key, block in blocks.items():
                _write(temporary / key, block)
            _sync(temporary)
            target = self._free(safe_name(name))
            temporary.rename(target)
            _sync(self.path)
        except OSError as error:
            shutil.rmtree(temporary, ignore_errors=True)
            raise StoreError(f"{self.path}: cannot keep {name}: {error.strerror or error}") from error
        return str(target)

    def _make_room(self, size: int) -> None:
        for left in self.path.glob(f"{_TEMPORARY}*"):  # of a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        names = self.names()
        sizes = {name: _size(self.path / name) for name in names}
        while names and (len(names) >= self._entries or sum(sizes.values()) + size > self._total):
            oldest = names.pop(0)
            del sizes[oldest]
            self._remove(oldest)

    def _remove(self, name: str) -> None:
        hidden = self.path / f"{_TEMPORARY}gone"  # renamed first: a removal that is interrupted leaves no half entry
        (self.path / name).rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def _free(self, name: str) -> Path:
        target, count = self.path / name, 1
        while target.exists():
            count += 1
            target = self.path / f"{name}.{count}"
        return target


def _block(text: str) -> bytes:
    block = redact(text).encode("utf-8", "backslashreplace")
    left_out = len(block) - FILE
    return block if left_out <= 0 else block[:FILE] + f"\n[{left_out} more bytes left out]\n".encode()


def _write(path: Path, block: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    with os.fdopen(fd, "wb") as file:
        file.write(block)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _size(folder: Path) -> int:
    total = 0
    for item in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += item.stat().st_size
    return total
