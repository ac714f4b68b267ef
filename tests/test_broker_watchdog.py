"""What the broker does for watchdogs, as real processes: devices handed over, dumps told, to a user without capabilities."""

from __future__ import annotations

import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent import broker
from agent.errors import BadRequest
from agent.model import Json
from tests.brokers import wait_for

USER = ("setpriv", "--reuid", "gatewarden", "--regid", "gatewarden", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all")
ASK = """
import sys
from pathlib import Path
from agent.linux import handed
from agent.linux.brokerclient import BrokerClient
client = BrokerClient(Path(sys.argv[1]))
try:
    print(handed.watchdog_fd(client, "/dev/watchdog77"))
except OSError as error:
    print(type(error).__name__, error.filename)
print(client.pstore() == handed.dumps(client))
"""


@pytest.fixture
def socket() -> Iterator[Path]:
    """Give the socket of a running broker."""
    folder = Path(tempfile.mkdtemp(prefix="gatewarden-broker-"))
    folder.chmod(0o755)
    config = folder / "agent.toml"
    config.write_text(f'[paths]\nruntime_dir = "{folder}"\n')
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "agent.broker", "--config", str(config)], stderr=subprocess.PIPE
    ) as child:
        wait_for((folder / "broker.sock").is_socket, "the broker")
        yield folder / "broker.sock"
        child.terminate()
    shutil.rmtree(folder)


@pytest.mark.root
def test_what_is_not_there_is_told_as_the_kernel_does(socket: Path) -> None:
    """Pins that errno comes through the broker, so that each state of a device keeps its name, and that dumps are told."""
    assert pwd.getpwnam("gatewarden")
    done = subprocess.run([*USER, sys.executable, "-c", ASK, str(socket)], capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["FileNotFoundError /dev/watchdog77", "True"], done.stderr


@pytest.mark.parametrize("name", ["watchdog", "watchdog0", "watchdog99"])
def test_names_of_watchdogs(name: str) -> None:
    """Pins what may be opened."""
    assert broker.checked("watchdog.open", {"device": name})[1] == {"device": name}


@pytest.mark.parametrize("name", ["", "watchdog100", "../sda", "watchdog0\n", "watchdog٣", 0, None, ["watchdog0"]])
def test_nothing_else_may_be_opened(name: Json) -> None:
    """Pins that the verb opens watchdogs and no other device."""
    with pytest.raises(BadRequest, match="want watchdog"):
        broker.checked("watchdog.open", {"device": name})
