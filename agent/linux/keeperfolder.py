"""The keeper's own folder below runtime_dir. On a gateway tmpfiles.d makes it; in a checkout the keeper does."""

from __future__ import annotations

import grp
import os
from contextlib import suppress
from pathlib import Path

from agent.errors import GatewardenError

GROUP = "gatewarden"
MODE = 0o2750  # setgid: the socket in it belongs to the group of agentd, which the keeper's user is not in


def prepare(folder: Path) -> None:
    """Make `folder` if it is missing. Raises GatewardenError if this user cannot use it."""
    try:
        if not folder.is_dir():
            folder.mkdir(parents=True)
            with suppress(KeyError, PermissionError):
                os.chown(folder, -1, grp.getgrnam(GROUP).gr_gid)
            folder.chmod(MODE)
    except OSError as error:
        raise GatewardenError(f"{folder}: {error.strerror}; as root: systemd-tmpfiles --create gatewarden.conf") from error
    if not os.access(folder, os.W_OK | os.X_OK):
        raise GatewardenError(f"{folder}: not ours to write; as root: chown gatewarden-work:{GROUP} {folder}")
