"""The keeper's unit under a real systemd: this machine's own, booted in a container over this /usr, with our users."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.brokers import wait_for
from tests.keepers import workload

pytestmark = [pytest.mark.root, pytest.mark.timeout(240)]

ROOT = Path(__file__).parent.parent
HIDDEN = pytest.mark.skipif(
    ROOT.is_relative_to("/tmp") or ROOT.parts[1:2] in {("home",), ("root",)} or ROOT.is_relative_to("/var/tmp"),
    reason="this checkout lies where the installed units see nothing (PrivateTmp=, ProtectHome=)",
)
BOOT_S = 120.0  # on a busy machine
ORDER = """
import socket
with socket.socket(socket.AF_UNIX) as sock:
    sock.connect("/run/gatewarden/keeper/keeper.sock")
    sock.sendall(b'{"type":"order","id":"1","verb":"restart","name":"a","reason":"test"}\\n')
    print(sock.recv(1000).decode())
"""


@dataclass
class Machine:
    """A booted container."""

    boot: subprocess.Popen[bytes]

    @property
    def leader(self) -> int:
        """Its init, 0 if there is none (yet)."""
        children = Path(f"/proc/{self.boot.pid}/task/{self.boot.pid}/children")
        return int((children.read_text().split() or ["0"])[0]) if children.exists() else 0

    def run(self, *command: str) -> str:
        """Run a command in it; gives what it printed."""
        inside = ("nsenter", "-t", str(self.leader), "-m", "-p", "-u", "-i", "-n", "--wd=/", *command)
        done = subprocess.run(inside, capture_output=True, text=True, check=False)
        return (done.stdout + done.stderr).strip()

    def unit(self, key: str) -> str:
        """Give one property of the keeper's unit."""
        return self.run("systemctl", "show", "gatewarden-keeper", "--value", "-p", key)

    def sleepers(self) -> dict[str, str]:
        """Give the pids of the workloads by their argument."""
        rows = (line.split() for line in self.run("pgrep", "-a", "-x", "sleep").splitlines())
        return {row[-1]: row[0] for row in rows}


@contextmanager
def machine(folder: Path) -> Iterator[Machine]:
    """Boot it; skip where this machine cannot run one."""
    (folder / "agent.toml").write_text(workload("a", ["sleep", "1001"]) + workload("b", ["sleep", "1002"], after=["a"]))
    unit = (ROOT / "deploy/systemd/gatewarden-keeper.service").read_text()
    places = {"/opt/gatewarden/bin/python": f"{ROOT}/.venv/bin/python", "/etc/gatewarden/agent.toml": f"{folder}/agent.toml"}
    for name, ours in places.items():
        unit = unit.replace(name, ours)
    (folder / "unit").write_text(unit)
    bound = {
        folder: folder,
        ROOT: ROOT,
        folder / "unit": "/etc/systemd/system/gatewarden-keeper.service",
        ROOT / "deploy/sysusers.d/gatewarden.conf": "/etc/sysusers.d/gatewarden.conf",
        ROOT / "deploy/tmpfiles.d/gatewarden.conf": "/etc/tmpfiles.d/gatewarden.conf",
    }
    how = ("--quiet", "--volatile=yes", "--directory=/", "--boot", "--register=no", "--keep-unit", "--machine=gw-keeper")
    words = (*how, *(f"--bind-ro={ours}:{theirs}" for ours, theirs in bound.items()), "systemd.firstboot=off")
    log = folder / "boot.log"
    with log.open("wb") as file:
        boot = subprocess.Popen(
            ["systemd-nspawn", *words, "systemd.unit=multi-user.target"], stdin=subprocess.DEVNULL, stdout=file, stderr=file
        )
    found = Machine(boot)
    try:
        wait_for(lambda: found.unit("ActiveState") == "active" or boot.poll() is not None, lambda: _last_words(log), BOOT_S)
        if boot.poll() is not None:
            pytest.skip(f"systemd-nspawn boots nothing here: {_last_words(log)}")
        yield found
    finally:
        if found.leader:
            subprocess.run(["kill", "-KILL", str(found.leader)], check=False)
        boot.terminate()
        boot.wait(30)


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-300:].strip()


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that a container sees under the same name: not below /tmp, which it has of its own."""
    made = Path("/var/tmp/gatewarden-keeper-test")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(mode=0o755)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(not shutil.which("systemd-nspawn"), reason="systemd-nspawn is not installed")
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
