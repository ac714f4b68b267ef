"""Small JSON files that are whole at any time, for readers in other processes."""

from __future__ import annotations

import json
from pathlib import Path

from agent.model import Json


def write_json(path: Path, value: Json, mode: int = 0o640) -> None:
    """Replace `path` by `value` in one step (rename(2)); not synced: meant for a tmpfs. Raises OSError."""
    draft = path.with_name(f".{path.name}.new")
    draft.write_text(json.dumps(value, separators=(",", ":")))
    draft.chmod(mode)
    draft.rename(path)
