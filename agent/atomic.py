"""Files that are whole at any time, for readers in other processes, and that follow no link that somebody laid in their way."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from agent.model import Json


def write(path: Path, block: bytes, mode: int, *, synced: bool = False) -> None:
    """Replace `path` by `block` in one step (rename(2)), `synced` to the disk if it must survive a power cut. Raises OSError.

    One writer at a time for each path. The draft beside it is made anew (O_EXCL): root may write into another user's folder.
    """
    draft = path.with_name(f".{path.name}.new")
    with contextlib.suppress(FileNotFoundError):
        draft.unlink()  # of a process that was killed
    try:
        fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(fd, "wb") as file:
            os.fchmod(fd, mode)
            file.write(block)
            if synced:
                file.flush()
                os.fsync(fd)
        draft.rename(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            draft.unlink()
        raise OSError(error.errno, error.strerror, str(path)) from error  # the draft is nobody's business


def write_json(path: Path, value: Json, mode: int = 0o640) -> None:
    """Replace `path` by `value`; not synced: meant for a tmpfs. Raises OSError."""
    write(path, json.dumps(value, separators=(",", ":")).encode(), mode)
