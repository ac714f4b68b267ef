"""`agentctl mcu` as a process, asking a link to the simulated microcontroller over a control socket."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent import control
from agent.linux import unixserver
from agent.linux.peer import Reply
from agent.linux.serial import Line
from agent.mcu.ttl import Bounds
from tests.mcu.sim import Linked, Sim, built, linked, simulator

Config = Callable[..., Path]
LONG = Bounds(60_000, 60_000)


@dataclass(frozen=True)
class Box:
    """A gateway with a microcontroller."""

    config: Path
    sim: Sim
    mcu: Linked

    def agentctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `agentctl mcu` on it."""
        return run(self.config, *words)


def run(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `agentctl mcu`."""
    command = [sys.executable, "-P", "-m", "agent.cli", "--config", str(config), "mcu", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


@contextmanager
def box(tmp_path: Path, config: Path, **options: int) -> Iterator[Box]:
    """Serve the control verb `mcu` as agentd does."""
    with simulator(tmp_path, boot_ms=60_000, **options) as sim, linked(Line(str(sim.link)), LONG) as mcu:
        mcu.feed_until(lambda: mcu.state() == "leased" and bool(mcu.link.client.reports.log))

        def answered(line: bytes, _caller: unixserver.Credentials) -> Reply:
            return Reply(control.answer(line, {"mcu": mcu.link.answer}, lambda _name, error: mcu.faults.append(str(error))))

        listening: list[Any] = []
        sock = unixserver.listen(tmp_path / "run/control.sock")
        mcu.on_loop(lambda: listening.append(unixserver.serve(mcu.loop, sock, answered, "control")))
        yield Box(config, sim, mcu)
        mcu.on_loop(listening[0].close)


def test_status_log_and_power_cycle(tmp_path: Path, lab_config: Config) -> None:
    """Pins the three verbs of a box that works: what they print, that the log is read anew, that --yes is needed."""
    with box(tmp_path, lab_config(), spi_timeouts=7) as gateway:
        shown = json.loads(gateway.agentctl("--json").stdout)
        assert (shown["schema"], shown["link"], shown["state"]) == ("gatewarden.mcu/1", "leased", "ok")
        assert shown["status"]["spi_timeouts"] == 7
        plain = gateway.agentctl()
        assert plain.returncode == 0
        assert "leased" in plain.stdout
        assert "spi_timeouts 7" in plain.stdout

        log = json.loads(gateway.agentctl("log", "--json").stdout)
        assert log["fresh"] is True
        assert [row["reason"] for row in log["log"]][-1] == "mcu_start"
        assert "power_on" in gateway.agentctl("log").stdout

        assert gateway.agentctl("power-cycle").returncode == 2
        assert gateway.sim.power() == [True]
        done = gateway.agentctl("power-cycle", "--yes")
        assert (done.returncode, done.stdout[:17]) == (0, "power goes off in")


def test_without_agentd(tmp_path: Path, lab_config: Config) -> None:
    """Pins exit code 3 and the last row that agentd left behind."""
    config = lab_config()
    row = {"name": "mcu", "kind": "mcu", "link": "leased", "state": "ok", "port": "/dev/mcu"}
    (tmp_path / "run/status.json").write_text(json.dumps({"state": "ok", "watchdogs": [row]}))
    done = run(config, "--json")
    assert done.returncode == 3
    found = json.loads(done.stdout)
    assert (found["link"], found["port"]) == ("leased", "/dev/mcu")
    assert found["stale_s"] is not None
    assert run(config, "log").returncode == 3


def test_simulate_is_the_simulator(tmp_path: Path, lab_config: Config) -> None:
    """Pins that `agentctl mcu simulate` offers a port, tells what happens to the power, and ends by a signal."""
    built()
    link = tmp_path / "mcu"
    command = [sys.executable, "-P", "-m", "agent.cli", "--config", str(lab_config()), "mcu", "simulate"]
    command += ["--link", str(link), "--set", "boot-ms=100", "--set", "off-ms=50", "--set", "ttl-min-ms=50"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [json.loads(process.stdout.readline()) for _ in range(5)]
        assert str(link.readlink()) == told[0]["name"]
        assert [one["on"] for one in told if one["event"] == "power"] == [True, False, True]
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert not link.is_symlink()


def test_simulate_says_what_is_wrong(lab_config: Config) -> None:
    """Pins usage errors, ours and the simulator's own, and its list of options."""
    built()
    config = lab_config()
    assert run(config, "simulate", "--set", "lose").returncode == 2
    unknown = run(config, "simulate", "--set", "nonsense=1")
    assert (unknown.returncode, "no such option" in unknown.stderr) == (2, True)
    assert "--vanish-after-ms" in run(config, "simulate", "--options").stdout
    assert run(config, "simulate", "--set", "off-ms=0").returncode == 1
