"""Units as workloads under a real systemd, in a container: the installed agent without any privilege, and its broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests import containers
from tests.brokers import wait_for
from tests.containers import HIDDEN, NSPAWN, ROOT, Machine, booted, unit

pytestmark = [pytest.mark.root, pytest.mark.timeout(300)]

CONFIG = """
[probes]
enabled = []
[watchdog]
mode = "off"
[metrics]
period_s = 1
[[workload]]
name = "plain"
unit = "plain.service"
[[workload]]
name = "flaky"
unit = "flaky.service"
[[workload]]
name = "behind"
unit = "behind.service"
after = ["flaky"]
"""
PLAIN = "[Service]\nExecStart=/bin/sleep 1001\n"
BEHIND = "[Service]\nExecStart=/bin/sleep 1003\n"
# Works at its fifth start; systemd starts it four times, then gives up.
FLAKY = """
[Unit]
StartLimitBurst=4
StartLimitIntervalSec=60
[Service]
ExecStart=/bin/sh -c 'echo >> /run/starts; test $(wc -l < /run/starts) -gt 4 && exec sleep 1002; exit 3'
Restart=on-failure
RestartSec=50ms
"""
REBOOT = """
from pathlib import Path
from agent.linux.brokerclient import BrokerClient
print(BrokerClient(Path("/run/gatewarden/broker.sock")).reboot("test"))
"""
REBOOTED = 133  # of systemd-nspawn, when what it runs wants to boot again
OURS = ("gatewarden.service", "gatewarden-broker.service", "gatewarden-broker.socket")


class Box(Machine):
    """A container with the agent in it."""

    def ctl(self, *words: str) -> Any:
        """Run agentctl; gives its JSON."""
        return json.loads(self.run(f"{ROOT}/.venv/bin/agentctl", *words, "--json"))

    def workload(self, name: str) -> dict[str, Any]:
        """Give the row of one workload, empty while agentd does not say."""
        try:
            listed: list[dict[str, Any]] = self.ctl("status")["workloads"]
        except ValueError:
            return {}
        return next((row for row in listed if row["name"] == name), {})


@contextmanager
def machine(folder: Path) -> Iterator[Box]:
    """Boot it with the agent, its broker and three units to watch."""
    config = folder / "agent.toml"
    config.write_text(CONFIG)
    texts = {name: unit(name, {"/opt/gatewarden/bin/": f"{ROOT}/.venv/bin/"}) for name in OURS}
    texts |= {"plain.service": PLAIN, "flaky.service": FLAKY, "behind.service": BEHIND}
    for name, text in texts.items():
        (folder / name).write_text(text)
    shown = {folder / name: Path("/etc/systemd/system", name) for name in texts}
    with booted(Box, "gw-services", folder, {config: Path("/etc/gatewarden/agent.toml"), **shown}) as box:
        yield box


@pytest.fixture
def folder() -> Iterator[Path]:
    """Give a folder of its own."""
    with containers.folder("gatewarden-services-test") as made:
        yield made


@HIDDEN
@NSPAWN
def test_units_are_watched_and_restarted(folder: Path) -> None:
    """Pins the whole way, by the units as they are installed.

    A unit without Restart= that is killed is restarted by the ladder, through the broker. One that systemd restarts itself is
    left alone until systemd gives it up at its start limit; then the ladder enters at restart_dependants, past that limit.
    At last, that the broker, as it is confined, can reboot.
    """
    with machine(folder) as box:
        box.run("systemctl", "start", "plain", "behind", "gatewarden-broker.socket", "gatewarden")
        wait_for(lambda: box.workload("plain").get("state") == "running", lambda: said(box), 60)
        first = box.show("plain", "MainPID")
        assert str(box.workload("plain")["pid"]) == first
        behind = box.show("behind", "MainPID")

        box.run("systemctl", "kill", "--signal=KILL", "plain")
        wait_for(lambda: box.show("plain", "MainPID") not in ("0", first), lambda: said(box), 30)
        wait_for(lambda: box.workload("plain").get("state") == "running", lambda: said(box), 30)
        assert box.workload("plain")["last_rung"] == "restart"

        box.run("systemctl", "start", "flaky")
        wait_for(lambda: box.run("wc", "-l", "/run/starts").startswith("5 "), lambda: said(box), 60)
        assert "flaky.service: Start request repeated too quickly." in box.run("journalctl", "-u", "flaky", "-o", "cat")
        wait_for(lambda: box.show("flaky", "ActiveState") == "active", lambda: said(box), 60)
        wait_for(lambda: box.workload("flaky").get("last_rung") == "restart_dependants", lambda: said(box), 60)
        wait_for(lambda: box.show("behind", "MainPID") not in ("0", behind), lambda: said(box), 60)
        row = box.workload("flaky")
        assert (row["supervised"], row["by"]) == (True, "flaky.service")
        checks = box.ctl("doctor")["checks"]
        assert [one["state"] for one in checks if one["name"] == "flaky" and "two masters" in one["reason"]] == ["degraded"]
        journal = box.run("journalctl", "-u", "gatewarden-broker", "-o", "cat")
        assert "verb=unit" in journal
        assert "internal error" not in journal
        assert "fault" not in said(box)

        agentd = ("setpriv", "--reuid", "gatewarden", "--regid", "gatewarden", "--clear-groups", f"{ROOT}/.venv/bin/python")
        assert box.run(*agentd, "-c", REBOOT) == "systemctl --no-block reboot: test"
        wait_for(lambda: box.boot.poll() is not None, "a reboot", 60)
        assert box.boot.returncode == REBOOTED


def said(box: Box) -> str:
    """Give what agentd and the broker said last."""
    return box.run("journalctl", "-u", "gatewarden", "-u", "gatewarden-broker", "-o", "cat", "-n", "60")
