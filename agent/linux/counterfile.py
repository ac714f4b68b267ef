"""A file in which a workload counts its work: its content and its time, whichever goes on."""

from __future__ import annotations

from pathlib import Path

from agent import regular
from agent.errors import GatewardenError

_LIMIT = 64  # bytes: a number, and a line's end


def read(path: Path) -> tuple[bytes, int]:
    """Give what stands in it, and the time of its last change in ns. Raises GatewardenError naming what is in the way."""
    try:
        return regular.read(path, _LIMIT), path.stat().st_mtime_ns
    except (OSError, ValueError) as error:
        raise GatewardenError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
