"""What the kernel kept over a reset: records of /sys/fs/pstore (Documentation/ABI/testing/pstore), or their archive.

systemd-pstore.service moves records to /var/lib/systemd/pstore early at boot, each into a folder of its own; both are read, and
none is removed. A record begins with `Panic#1 Part1` (`Oops`, `Emergency`, …: get_reason_str in fs/pstore/platform.c).
"""

from __future__ import annotations

import errno
import os
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path("/")
PLACES = ("sys/fs/pstore", "var/lib/systemd/pstore")
_FILES = 128
_LIMIT = 256 * 1024
_HEAD = re.compile(rb"\A(\w{1,32})#(\d{1,10}) Part(\d{1,10})\n")
_PANIC = re.compile(rb"Kernel panic - not syncing: ([^\n]{0,300})")


@dataclass(frozen=True, slots=True)
class Record:
    """One dump. `key` is the same for the same dump wherever it lies; `panic` is the panic's words if this part has them."""

    key: str
    reason: str
    panic: str

    def plain(self) -> tuple[str, str, str]:
        """Give it for JSON."""
        return self.key, self.reason, self.panic


def mounted(root: Path = ROOT) -> bool | None:
    """Whether a pstore is mounted that may hold something; None if that cannot be seen."""
    try:
        text = (root / "proc/self/mounts").read_text()
    except OSError:
        return None
    return any(line.split(" ")[2:3] == ["pstore"] for line in text.splitlines())


def backend(root: Path = ROOT) -> str:
    """Give the name of what keeps the records (erst, efi_pstore, ramoops); empty if nothing does."""
    try:
        found = (root / "sys/module/pstore/parameters/backend").read_text().strip()
    except OSError:
        return ""
    return "" if found == "(null)" else found


def read(root: Path = ROOT) -> list[Record]:
    """Give the dumps there are, in no certain order. Raises PermissionError if /sys/fs/pstore is closed to this user."""
    return [record for path in _files(root) if (record := _read(path)) is not None]


def _files(root: Path) -> Iterator[Path]:
    count = 0
    for place in PLACES:
        folder = root / place
        if folder.is_dir():
            if not os.access(folder, os.R_OK | os.X_OK):  # rglob would find nothing and say nothing
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(folder))
            for path in sorted(folder.rglob("*dmesg*")):
                if path.is_file() and count < _FILES:
                    count += 1
                    yield path


def _read(path: Path) -> Record | None:
    try:
        with path.open("rb") as file:
            raw = file.read(_LIMIT)
    except FileNotFoundError:
        return None
    return parse(raw)


def parse(raw: bytes) -> Record | None:
    """Read one record; None if it is no dump of the kernel's log."""
    head = _HEAD.match(raw)
    if head is None:
        return None
    reason = head[1].decode("ascii", "replace")
    said = _PANIC.search(raw)
    panic = "" if said is None else f"Kernel panic - not syncing: {said[1].decode('utf-8', 'backslashreplace')}"
    return Record(f"{reason}-{zlib.crc32(raw):08x}-{len(raw)}", reason, panic)


def panic(records: list[Record]) -> str:
    """Give the words of a panic among `records`; empty if none of them is one."""
    panics = [record for record in records if record.reason == "Panic"]
    words = [record.panic for record in panics if record.panic]
    return words[0] if words else "Kernel panic (its own words were not kept)" if panics else ""
