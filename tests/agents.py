"""agentd as a real process, for tests: started, waited for, asked, killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.brokers import wait_for

BIN = Path(sys.executable).parent
# An ordinary user in group gatewarden, with nothing in any capability set.
NOBODY = ("setpriv", "--reuid", "65534", "--regid", "gatewarden", "--clear-groups", "--bounding-set", "-all")


@dataclass
class Agent:
    """One running agentd."""

    config: Path
    process: subprocess.Popen[bytes]
    log: Path

    def ctl(self, *arguments: str) -> tuple[int, Any]:
        """Run `agentctl` on this agent; gives its exit code and its JSON."""
        command = [str(BIN / "agentctl"), "--config", str(self.config), *arguments, "--json"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.stdout.startswith("{"), f"{arguments}: {result.stdout}{result.stderr}"
        return result.returncode, json.loads(result.stdout)

    def status(self) -> dict[str, Any]:
        """Give its status."""
        found: dict[str, Any] = self.ctl("status")[1]
        return found

    def said(self) -> str:
        """Give its log."""
        return self.log.read_text()

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; gives the exit code."""
        self.process.send_signal(number)
        return self.process.wait(20)


@contextmanager
def agent(config: Path, *before: str) -> Iterator[Agent]:
    """Run agentd on `config` through the command `before`, from when it says ready until the block ends."""
    log = config.with_name(f"agentd-{time.monotonic_ns()}.log")
    with log.open("wb") as file:
        process = subprocess.Popen([*before, str(BIN / "agentd"), "--config", str(config)], stdout=file, stderr=file)
    found = Agent(config, process, log)
    try:
        wait_for(
            lambda: "<6>ready" in found.said() or process.poll() is not None, lambda: f"agentd ready: {found.said()[-500:]}"
        )
        assert process.poll() is None, found.said()
        yield found
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)


def open_to_all(folder: Path, *owned: Path) -> None:
    """Let uid 65534 reach `folder` and own what is in `owned`."""
    for parent in (folder, *folder.parents):
        if parent.stat().st_mode & 0o005 != 0o005 and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o055)
    for path in owned:
        os.chown(path, 65534, -1)


def sleeper(seconds: int = 300) -> subprocess.Popen[bytes]:
    """Start a `sleep` that is surely a `sleep` by now (not the fork before its exec)."""
    process = subprocess.Popen(["sleep", str(seconds)])
    comm = Path(f"/proc/{process.pid}/comm")
    wait_for(lambda: comm.read_text() == "sleep\n", "exec of sleep")
    return process


def named(events: Sequence[dict[str, Any]], kind: str, pid: int) -> list[dict[str, Any]]:
    """Give the events of `kind` that tell of process `pid`."""
    return [event for event in events if event.get("kind") == kind and event["data"]["pid"] == pid]
