"""`make run`, as a newcomer meets it: a broker, an agent that traces this kernel, and an end by Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from agent import config
from tests.brokers import free_port

ROOT = Path(__file__).parent.parent
PORT = free_port()
SUBSCRIBE = ("mosquitto_sub", "-h", "127.0.0.1", "-p", str(PORT), "-V", "mqttv5", "-W", "30")

pytestmark = [pytest.mark.kernel, pytest.mark.broker]


def _listening() -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", PORT)) == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder that the lab keeps everything in."""
    return tmp_path_factory.mktemp("lab")


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run deploy/lab/run in a process group of its own, as a terminal would."""
    environment = {**os.environ, "LAB_DIR": str(folder), "LAB_PORT": str(PORT)}
    log: IO[bytes]
    with (folder / "log").open("wb") as log:
        command = [str(ROOT / "deploy/lab/run")]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait(20)


def _receive(topic: str, count: int = 1) -> list[dict[str, object]]:
    deadline = time.monotonic() + 20
    while not _listening():
        assert time.monotonic() < deadline, "the broker did not come up"
        time.sleep(0.05)
    done = subprocess.run(
        [*SUBSCRIBE, "-t", f"gatewarden/v1/lab/gw-1/{topic}", "-C", str(count)], capture_output=True, check=False
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_lab_itself_is_a_good_configuration() -> None:
    """Pins that deploy/lab/agent.toml, by which agentctl finds what `make run` started as root, has no problems."""
    config.check(ROOT / "deploy/lab/agent.toml")


def test_it_speaks_on_mqtt(lab: subprocess.Popen[bytes]) -> None:
    """Pins that birth and status are retained on the broker, and metrics follow."""
    assert _receive("birth")
    assert _receive("status")[0]["state"] == "online"
    assert _receive("metrics")
    assert lab.poll() is None


def test_status_shows_five_live_probes(lab: subprocess.Popen[bytes], folder: Path) -> None:
    """Pins the page that the README promises: all probes on, from this kernel."""
    done = subprocess.run(
        [str(ROOT / ".venv/bin/agentctl"), "--config", str(folder / "run/agent.toml"), "status", "--json"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    assert done.returncode in {0, 1, 5}, done.stderr  # 5: a busy machine may have a critical finding
    probes = {probe["name"]: probe for probe in json.loads(done.stdout)["probes"]}
    assert {"timers", "run_queue", "softirq", "irq", "process_exit"} <= set(probes)
    assert probes["timers"]["events"] > 0
    assert lab.poll() is None


def test_ctrl_c_ends_both(lab: subprocess.Popen[bytes]) -> None:
    """Pins that an interrupt of the whole group leaves neither agent nor broker behind."""
    os.killpg(lab.pid, signal.SIGINT)
    assert lab.wait(20) == 0
    assert not _listening()
