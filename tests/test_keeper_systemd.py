"""The keeper's unit under a real systemd: this machine's own, booted in a container over this /usr, with our users."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests import containers
from tests.brokers import wait_for
from tests.containers import HIDDEN, NSPAWN, ROOT, Machine, booted, unit
from tests.keepers import workload

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

ORDER = """
import socket
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect("/run/gatewarden/keeper/keeper.sock")
    sock.sendall(b'{"type":"order","id":"1","verb":"restart","name":"a","reason":"test"}\\n')
    print(sock.recv(1000).decode())
"""


class Box(Machine):
    """A container with the keeper in it."""

    def unit(self, key: str) -> str:
        """Give one property of the keeper's unit."""
        return self.show("gatewarden-keeper", key)

    def sleepers(self) -> dict[str, str]:
        """Give the pids of the workloads by their argument."""
        rows = (line.split() for line in self.run("pgrep", "-a", "-x", "sleep").splitlines())
        return {row[-1]: row[0] for row in rows}


@contextmanager
def machine(folder: Path) -> Iterator[Box]:
    """Boot it with two workloads."""
    (folder / "agent.toml").write_text(workload("a", ["sleep", "1001"]) + workload("b", ["sleep", "1002"], after=["a"]))
    places = {"/opt/gatewarden/bin/python": f"{ROOT}/.venv/bin/python", "/etc/gatewarden/agent.toml": f"{folder}/agent.toml"}
    (folder / "unit").write_text(unit("gatewarden-keeper.service", places))
    shown = {folder: folder, folder / "unit": Path("/etc/systemd/system/gatewarden-keeper.service")}
    with booted(Box, "gw-keeper", folder, shown) as box:
        box.run("systemctl", "start", "gatewarden-keeper")
        yield box


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder of its own."""
    with containers.folder("gatewarden-keeper-test") as made:
        yield made


@HIDDEN
@NSPAWN
def test_the_unit_under_systemd(folder: Path) -> None:
    """Pins users and modes, that workloads survive a killed and a reloaded keeper, orders by agentd's user, and the stop."""
    with machine(folder) as box:
        before = box.sleepers()
        assert set(before) == {"1001", "1002"}
        assert box.run("stat", "-c", "%a %U:%G", "/run/gatewarden/keeper/keeper.sock") == "660 gatewarden-work:gatewarden"
        keeper = box.unit("MainPID")
        box.run("systemctl", "kill", "--kill-whom=main", f"--signal={int(signal.SIGKILL)}", "gatewarden-keeper")
        wait_for(lambda: box.unit("ActiveState") == "active" and box.unit("MainPID") != keeper, "a new keeper", 60)
        assert box.sleepers() == before
        keeper = box.unit("MainPID")
        box.run("systemctl", "reload", "gatewarden-keeper")
        wait_for(lambda: box.run("journalctl", "-u", "gatewarden-keeper").count("ready workloads=2") == 3, "executed anew", 60)
        assert (box.sleepers(), box.unit("MainPID")) == (before, keeper)
        agentd = ("setpriv", "--reuid", "gatewarden", "--regid", "gatewarden", "--clear-groups", "python3", "-c", ORDER)
        assert '"ok":true' in box.run(*agentd)
        assert box.sleepers()["1001"] != before["1001"]
        assert box.sleepers()["1002"] == before["1002"]
        box.run("systemctl", "stop", "gatewarden-keeper")
        assert (box.sleepers(), box.unit("Result")) == ({}, "success")
