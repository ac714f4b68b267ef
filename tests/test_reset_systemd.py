"""Planned and unplanned ends of a machine under a real systemd: the installed units, over several boots of one container."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests import containers
from tests.brokers import wait_for
from tests.containers import HIDDEN, NSPAWN, ROOT, Machine, booted, unit

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
def boot(folder: Path) -> Iterator[Box]:
    """Boot it on the state_dir of the boots before. Left alone, its power is cut."""
    config, state = folder / "agent.toml", folder / "state"
    config.write_text(CONFIG)
    state.mkdir(exist_ok=True)
    ended(state)
    places = {"/opt/gatewarden/bin/": f"{ROOT}/.venv/bin/", "/etc/gatewarden/agent.toml": str(config)}
    for name in UNITS:
        (folder / name).write_text(unit(name, places))
    shown = {folder: folder, **{folder / name: Path("/etc/systemd/system", name) for name in UNITS}}
    with booted(Box, "gw-reset", folder, shown, f"--bind={state}:/var/lib/gatewarden") as found:
        found.config = config
        found.run("systemctl", "start", "gatewarden", "gatewarden-shutdown")
        wait_for(lambda: bool(found.last_reset()), lambda: found.run("journalctl", "-u", "gatewarden*", "-n", "20"), 60)
        yield found


def left(folder: Path) -> str:
    """Give what the boots left in the state_dir, for a failure's text."""
    kept = [folder / "state" / name for name in LEFT]
    return "\n".join(path.read_text() if path.exists() else f"no {path.name}" for path in kept)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder of its own."""
    with containers.folder("gatewarden-reset-test") as made:
        yield made


@HIDDEN
@NSPAWN
def test_a_planned_shutdown_leaves_its_mark_and_a_cut_does_not(folder: Path) -> None:
    """Pins the mark by the real order of a shutdown, that a restart of its unit leaves none, and the cause after each end.

    Also: the limits of the installed unit let the feeding thread be real-time and the memory be locked, where this machine can.
    """
    with boot(folder) as box:
        assert box.last_reset()["cause"] == "unknown"
        box.run("systemctl", "restart", "gatewarden-shutdown")
        assert box.run("ls", str(MARK)).endswith("No such file or directory")
        assert box.run("systemctl", "show", "gatewarden", "--value", "-p", "LimitRTPRIO") == "10"
        box.run("systemctl", "stop", "gatewarden")
        box.off()
    with boot(folder) as box:
        found = box.last_reset()
        assert (found["cause"], found["confidence"]) == ("operator_reboot", "high"), left(folder)
    with boot(folder) as box:
        found = box.last_reset()
        assert (found["cause"], found["confidence"]) == ("power_cut", "low"), left(folder)
        box.off()
    with boot(folder) as box:
        assert box.last_reset()["cause"] == "operator_reboot"
        assert box.last_reset()["counts"] == {"power_cut": 1, "operator_reboot": 2, "unknown": 1}
