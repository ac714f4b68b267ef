"""The privileged broker (agent.broker): what it holds while it serves, and that it ends when nobody asks."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

from tests.bench import gateway, readings
from tests.bench.plan import Plan
from tests.bench.readings import KIB_PER_MIB
from tests.bench.table import Row
from tests.brokers import wait_for

TITLE = "the privileged broker"
NEEDS = ("root",)
ROWS = ("broker.uss", "broker.exit")
IDLE_S = 3.0
SLACK_S = 1.0  # of an end that is due at IDLE_S: interpreter shutdown, a busy machine
ASK = """
import sys
from pathlib import Path
from agent.linux.brokerclient import BrokerClient
client = BrokerClient(Path(sys.argv[1]))
client.kmsg_fd()
client.symbols([1])
"""


def seconds(_plan: Plan) -> int:
    """Give about how long it takes."""
    return 8


def measure(_plan: Plan) -> Iterator[Row]:
    """Start it as systemd would, ask it both verbs as the user gatewarden, weigh it, and wait for its end."""
    with gateway.installed() as box:
        socket = box.runtime / "broker.sock"
        command = [sys.executable, "-m", "agent.broker", "--config", str(box.config), "--idle-exit", str(IDLE_S)]
        child = subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL)
        try:
            wait_for(socket.exists, "the broker's socket")
            subprocess.run([*gateway.AS_USER, sys.executable, "-c", ASK, str(socket)], cwd="/", check=True)
            begun = time.monotonic()
            size = readings.memory(child.pid)
            note = f"{size.uss_kib / KIB_PER_MIB:.1f} MiB while other Python processes run"
            yield Row("broker.uss", "broker's USS after its verbs", "MiB", size.alone_kib / KIB_PER_MIB, note=note)
            code = child.wait(3 * IDLE_S)
            took = time.monotonic() - begun
        finally:
            child.kill()
            child.wait()
        bound = IDLE_S + SLACK_S
        note = f"it was told to wait {IDLE_S:g} s; exit code {code}"
        yield Row("broker.exit", "broker ends when idle, after", "s", took, bound, bound, note=note)
