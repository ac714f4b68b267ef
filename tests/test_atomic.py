"""Files that are whole at any time."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from agent import atomic


def test_a_file_is_replaced_with_its_mode_and_leaves_no_draft(tmp_path: Path) -> None:
    """Pins content, mode (whatever the umask) and that nothing else stays in the folder."""
    target = tmp_path / "status.json"
    before = os.umask(0o077)
    try:
        atomic.write_json(target, {"a": 1})
        atomic.write_json(target, {"a": 2})
    finally:
        os.umask(before)
    assert json.loads(target.read_text()) == {"a": 2}
    assert target.stat().st_mode & 0o777 == 0o640
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("name", ["status.json", ".status.json.new"])
def test_a_planted_link_is_not_followed(tmp_path: Path, name: str) -> None:
    """Pins that whoever owns the folder cannot have root write where a link of theirs points to."""
    victim = tmp_path / "victim"
    victim.write_text("precious")
    victim.chmod(0o600)
    (tmp_path / name).symlink_to(victim)
    atomic.write_json(tmp_path / "status.json", {})
    assert (victim.read_text(), victim.stat().st_mode & 0o777) == ("precious", 0o600)
    assert not (tmp_path / "status.json").is_symlink()


def test_what_cannot_be_written_leaves_the_old_file(tmp_path: Path) -> None:
    """Pins that a failure (here: a folder in the place of the file) leaves no draft."""
    (tmp_path / "f").mkdir()
    with pytest.raises(OSError, match="f"):
        atomic.write(tmp_path / "f", b"x", 0o600, synced=True)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]
