"""Planned and unplanned ends of a machine under a real systemd: the installed units, over several boots of one container."""

from __future__ import annotations

import json
import shutil
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.brokers import wait_for
from tests.test_keeper_systemd import BOOT_S, HIDDEN, ROOT, Machine, _last_words

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

UNITS = ("gatewarden.service", "gatewarden-shutdown.service")
CONFIG = "[probes]\nenabled = []\n"
LEFT = ("shutdown", "intent.json", "boots.json")
MARK = Path("/var/lib/gatewarden/shutdown")


class Box(Machine):
    """A container with the agent in it."""

    config: Path

    def last_reset(self) -> dict[str, Any]:
        """Ask agentd for the cause of the last reset."""
        with suppress(ValueError, KeyError):
            said = json.loads(self.run(f"{ROOT}/.venv/bin/agentctl", "--config", str(self.config), "status", "--json"))
            found: dict[str, Any] = said["last_reset"] if "stale_s" not in said else {}
            return found
        return {}

    def off(self) -> None:
        """Have systemd shut it down in good order, and wait for the end."""
        self.run("systemctl", "poweroff")
        self.boot.wait(90)


def ended(state: Path) -> None:
    """Make what the boot before left that of another boot: a container has its host's boot_id each time."""
    now, other = Path("/proc/sys/kernel/random/boot_id").read_text().strip(), str(uuid.uuid4())
    for path in (state / name for name in LEFT):
        if path.exists():
            text = path.read_text().replace(now, other).replace(now.replace("-", ""), other.replace("-", ""))
            path.write_text(text)


@contextmanager
def booted(folder: Path) -> Iterator[Box]:
    """Boot it on the state_dir of the boots before; skip where this machine cannot run one. Left alone, its power is cut."""
    config, state = folder / "agent.toml", folder / "state"
    config.write_text(CONFIG)
    state.mkdir(exist_ok=True)
    ended(state)
    bound = {folder: folder, ROOT: ROOT}
    for name in UNITS:
        text = (ROOT / "deploy/systemd" / name).read_text()
        text = text.replace("/opt/gatewarden/bin/", f"{ROOT}/.venv/bin/").replace("/etc/gatewarden/agent.toml", str(config))
        (folder / name).write_text(text)
        bound[folder / name] = Path("/etc/systemd/system", name)
    for kind in ("sysusers", "tmpfiles"):
        bound[ROOT / f"deploy/{kind}.d/gatewarden.conf"] = Path(f"/etc/{kind}.d/gatewarden.conf")
    how = ("--quiet", "--volatile=yes", "--directory=/", "--boot", "--register=no", "--keep-unit", "--machine=gw-reset")
    words = (*how, *(f"--bind-ro={ours}:{theirs}" for ours, theirs in bound.items()), f"--bind={state}:/var/lib/gatewarden")
    log = folder / "boot.log"
    with log.open("wb") as file:
        command = ["systemd-nspawn", *words, "systemd.firstboot=off", "systemd.unit=multi-user.target"]
        boot = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    found = Box(boot)
    found.config = config
    try:
        up = ("running", "degraded")
        wait_for(
            lambda: found.run("systemctl", "is-system-running") in up or boot.poll() is not None,
            lambda: _last_words(log),
            BOOT_S,
        )
        if boot.poll() is not None:
            pytest.skip(f"systemd-nspawn boots nothing here: {_last_words(log)}")
        found.run("systemctl", "start", "gatewarden", "gatewarden-shutdown")
        wait_for(lambda: bool(found.last_reset()), lambda: found.run("journalctl", "-u", "gatewarden*", "-n", "20"), 60)
        yield found
    finally:
        if boot.poll() is None:
            if found.leader:
                subprocess.run(["kill", "-KILL", str(found.leader)], check=False)
            boot.terminate()
            boot.wait(30)


def left(folder: Path) -> str:
    """Give what the boots left in the state_dir, for a failure's text."""
    kept = [folder / "state" / name for name in LEFT]
    return "\n".join(path.read_text() if path.exists() else f"no {path.name}" for path in kept)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder that a container sees under the same name, and agentd too: PrivateTmp= hides those for temporary files."""
    made = Path("/srv/gatewarden-reset-test")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(mode=0o755)
    yield made
    shutil.rmtree(made)


@HIDDEN
@pytest.mark.skipif(not shutil.which("systemd-nspawn"), reason="systemd-nspawn is not installed")
def test_a_planned_shutdown_leaves_its_mark_and_a_cut_does_not(folder: Path) -> None:
    """Pins the mark by the real order of a shutdown, that a restart of its unit leaves none, and the cause after each end.

    Also: the limits of the installed unit let the feeding thread be real-time and the memory be locked, where this machine can.
    """
    with booted(folder) as box:
        assert box.last_reset()["cause"] == "unknown"
        box.run("systemctl", "restart", "gatewarden-shutdown")
        assert box.run("ls", str(MARK)).endswith("No such file or directory")
        assert box.run("systemctl", "show", "gatewarden", "--value", "-p", "LimitRTPRIO") == "10"
        box.run("systemctl", "stop", "gatewarden")
        box.off()
    with booted(folder) as box:
        found = box.last_reset()
        assert (found["cause"], found["confidence"]) == ("operator_reboot", "high"), left(folder)
    with booted(folder) as box:
        found = box.last_reset()
        assert (found["cause"], found["confidence"]) == ("power_cut", "low"), left(folder)
        box.off()
    with booted(folder) as box:
        assert box.last_reset()["cause"] == "operator_reboot"
        assert box.last_reset()["counts"] == {"power_cut": 1, "operator_reboot": 2, "unknown": 1}
