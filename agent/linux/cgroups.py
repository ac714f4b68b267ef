"""Whether a unit lives, by its cgroup (cgroups(7)): where systemd puts it, in the unified tree and in the hybrid ones."""

from __future__ import annotations

from pathlib import Path

ROOT = Path("/")
_TREES = ("sys/fs/cgroup", "sys/fs/cgroup/unified", "sys/fs/cgroup/systemd")


def lives(unit: str, root: Path = ROOT) -> bool:
    """Whether a unit of system.slice has a cgroup: it runs, or is about to. One in a slice of its own is not found."""
    return any((root / tree / "system.slice" / unit).is_dir() for tree in _TREES)
