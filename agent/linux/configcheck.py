"""The check of a configuration in a child, for the keeper: as `child.validated`, but light, and on a loop if need be."""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path

from agent.errors import ConfigError, Problem
from agent.model import Data

PATIENCE_S = 20.0
_OUT = 1


class Check:
    """One check under way; `pidfd` is readable when it has ended. Its complaints go to our stderr."""

    def __init__(self, path: Path) -> None:
        """Start it. Raises OSError."""
        self._path = path
        self._result = os.memfd_create("gatewarden-config", os.MFD_CLOEXEC)
        # -P: a module that lies in the current directory is not ours, whatever its name.
        argv = [sys.executable, "-P", "-m", "agent.config", str(path)]
        self._pid = os.posix_spawn(argv[0], argv, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, self._result, _OUT)])
        self.pidfd = os.pidfd_open(self._pid)

    def result(self) -> Data:
        """Give the checked configuration as plain data, once the check has ended. Raises ConfigError."""
        os.close(self.pidfd)
        try:
            code = os.waitstatus_to_exitcode(os.waitpid(self._pid, 0)[1])
        except ChildProcessError:  # who reaps all children was quicker: only a good result is whole
            code = 0
        with os.fdopen(self._result, "rb") as file:
            file.seek(0)
            text = file.read()
        if code != 0 or not text.endswith(b"\n"):
            raise self._refused("has the problems above" if code >= 0 else "the check was killed")
        plain: Data = json.loads(text)
        return plain

    def wait(self) -> Data:
        """Wait for the result, for at most PATIENCE_S. Raises ConfigError."""
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not poll.poll(PATIENCE_S * 1000):
            os.kill(self._pid, 9)
        return self.result()

    def _refused(self, what: str) -> ConfigError:
        return ConfigError((Problem(str(self._path), 1, "file", what),))
