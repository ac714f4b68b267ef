"""The live patches of the running kernel (Documentation/ABI/testing/sysfs-kernel-livepatch). Reading only."""

from __future__ import annotations

import contextlib
from pathlib import Path

from agent.model import Json

FOLDER = Path("/sys/kernel/livepatch")


def read(folder: Path = FOLDER) -> list[Json]:
    """Give `{"name", "enabled", "transition", "functions"}` of each patch; none where the kernel has no CONFIG_LIVEPATCH."""
    try:
        patches = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return []
    return [_patch(path) for path in patches]


def _patch(path: Path) -> Json:
    functions: list[Json] = []
    with contextlib.suppress(OSError):  # it may go while we look
        functions += [
            f"{unit.name}:{function.name.split(',')[0]}"
            for unit in sorted(path.iterdir())
            if unit.is_dir()
            for function in sorted(unit.iterdir())
            if function.is_dir()
        ]
    return {
        "name": path.name,
        "enabled": _flag(path / "enabled"),
        "transition": _flag(path / "transition"),
        "functions": functions,
    }


def _flag(path: Path) -> bool | None:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip() == "1"
    except OSError:
        return None
