"""Last words that survive a reset: one small JSON file, replaced durably, and the mark of a planned shutdown.

The mark `<state_dir>/shutdown` holds the boot_id of a boot whose clean shutdown began. The unit gatewarden-shutdown writes it
as it is stopped, which systemd does before it unmounts anything: that needs neither agentd nor D-Bus alive at that time.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

from agent import atomic, regular
from agent.errors import BadRequest, StoreError
from agent.model import Data, Json

_LIMIT = 1 << 20  # 64 workloads, each in a crash loop of 16 lives, take 100 KiB; holds with long reasons twice as much


class DurableFile:
    """A JSON file that is whole, and on the disk, when `write` returns."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def there(self) -> bool:
        """Whether something lies there, readable or not."""
        return os.path.lexists(self.path)

    def read(self) -> Json:
        """Give what is there; None for no file, or one that is none of ours."""
        try:
            found: Json = json.loads(regular.read(self.path, _LIMIT))
        except (OSError, BadRequest, ValueError, RecursionError):
            return None
        return found

    def write(self, value: Data) -> None:
        """Replace it: written, fsync, renamed, and the folder synced, so that the new name survives too. Raises StoreError."""
        try:
            atomic.write(self.path, json.dumps(value, separators=(",", ":")).encode(), 0o640, synced=True)
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise StoreError(f"{self.path}: {error.strerror}") from error


def planned(state_dir: Path) -> str:
    """Give the boot_id (without dashes) of the boot whose clean shutdown began last; empty if none is on record."""
    with contextlib.suppress(OSError, BadRequest, ValueError):
        return regular.read(state_dir / "shutdown", 256).decode("ascii").strip().replace("-", "")
    return ""
