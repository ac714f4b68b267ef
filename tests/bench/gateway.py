"""A gateway to measure: installed in a folder of its own on a disk, probes pinned, agentd without capabilities."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from agent.errors import GatewardenError
from agent.linux.unix import ask
from agent.model import Data
from tests.brokers import free_port, mosquitto, wait_for

USER = "gatewarden"
AS_USER = ("setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "--inh-caps=-all", "--bounding-set=-all")
PROGRAMS = Path(sys.executable).parent
BASE = Path("/var/tmp")  # kept over a boot, so hardly ever in memory
VOLATILE = Path("/dev/shm")  # in memory, as /run is on a gateway; in containers that one often is not
MOST_EVENTS = 1000  # that agentd gives at once
CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")


@dataclass(frozen=True, slots=True)
class Gateway:
    """The folders and the agent.toml of one agent. `folder` holds all but the volatile one."""

    folder: Path
    runtime: Path

    @property
    def config(self) -> Path:
        """Its agent.toml."""
        return self.folder / "agent.toml"

    @property
    def bpffs(self) -> Path:
        """Where its probes are pinned."""
        return self.folder / "bpf"

    @property
    def state(self) -> Path:
        """Its durable folder."""
        return self.folder / "state"

    def agentctl(self, *arguments: str) -> list[str]:
        """Give the command line of agentctl on this gateway."""
        return [str(PROGRAMS / "agentctl"), "--config", str(self.config), *arguments]

    def run(self, *arguments: str) -> str:
        """Run agentctl and give what it printed. Raises CalledProcessError with its words in it."""
        return subprocess.run(self.agentctl(*arguments), capture_output=True, text=True, check=True).stdout

    def ask(self, verb: str, **arguments: object) -> Data:
        """Ask the running agentd. Raises GatewardenError."""
        return cast("Data", ask(self.runtime / "control.sock", cast("Data", {"verb": verb, **arguments})))


@contextlib.contextmanager
def installed(more: str = "") -> Iterator[Gateway]:
    """Make a gateway whose agent.toml ends with `more`; its probes are unloaded and its folder removed in the end."""
    folder, runtime = (Path(tempfile.mkdtemp(prefix="gatewarden-bench-", dir=base)) for base in (BASE, VOLATILE))
    gateway = Gateway(folder, runtime)
    gateway.state.mkdir()
    for path in (folder, runtime):
        path.chmod(0o755)
    if os.geteuid() == 0:
        for path in (gateway.state, runtime):
            shutil.chown(path, USER, USER)
    gateway.config.write_text(
        f'[gateway]\nsite = "bench"\nname = "gw-bench"\n[paths]\nstate_dir = "{folder}/state"\n'
        f'runtime_dir = "{runtime}"\nbpffs_dir = "{folder}/bpf"\n{more}'
    )
    try:
        yield gateway
    finally:
        if os.geteuid() == 0:
            subprocess.run(gateway.agentctl("probes", "unload"), stdout=subprocess.DEVNULL, check=False)
        for path in (folder, runtime):
            shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def agentd(gateway: Gateway) -> Iterator[int]:
    """Run agentd, as root's gateways do: as the user gatewarden with no capability. Gives its pid once it answers."""
    drop = AS_USER if os.geteuid() == 0 else ()
    with (gateway.folder / "agentd.log").open("wb") as log:
        command = [*drop, str(PROGRAMS / "agentd"), "--config", str(gateway.config)]
        child = subprocess.Popen(command, cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for(lambda: _answers(gateway, child), f"agentd answers ({gateway.folder}/agentd.log)", 60)
        yield child.pid
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _answers(gateway: Gateway, child: subprocess.Popen[bytes]) -> bool:
    assert child.poll() is None, (gateway.folder / "agentd.log").read_text()[-2000:]
    with contextlib.suppress(GatewardenError):
        return bool(gateway.ask("status"))
    return False


def all_probes_run(gateway: Gateway) -> None:
    """Make sure that the figures are those of a whole agent. Raises AssertionError naming the probes that are off."""
    rows = cast("list[dict[str, object]]", gateway.ask("status")["probes"])
    off = [f"{row['name']}: {row['reason']}" for row in rows if row["state"] != "ok" or row["origin"] != "pinned"]
    assert not off, off


@contextlib.contextmanager
def secure_broker() -> Iterator[tuple[int, str]]:
    """Run a mosquitto that wants certificates from both sides; gives a plain port for listeners and the [mqtt] section."""
    with tempfile.TemporaryDirectory(prefix="gatewarden-bench-tls-", dir=BASE) as name:
        folder = Path(name)
        folder.chmod(0o755)
        _certificates(folder)
        port = free_port()
        lines = (
            f"listener {port} 127.0.0.1",
            f"cafile {folder}/ca.pem",
            f"certfile {folder}/server.pem",
            f"keyfile {folder}/server.key",
            "require_certificate true",
        )
        tls = f'ca = "{folder}/ca.pem"\ncertificate = "{folder}/client.pem"\nkey = "{folder}/client.key"\n'
        with mosquitto(folder / "broker", *lines) as broker:
            yield broker.port, f'[mqtt]\nhost = "127.0.0.1"\nport = {port}\n[mqtt.tls]\n{tls}'


def _certificates(folder: Path) -> None:
    """Make an authority and one certificate for each side."""

    def openssl(name: str, *more: str) -> None:
        files = ("-keyout", f"{folder}/{name}.key", "-out", f"{folder}/{name}.pem")
        subprocess.run(["openssl", "req", "-x509", *CURVE, *files, *more], capture_output=True, check=True)
        (folder / f"{name}.key").chmod(0o644)

    signed = ("-CA", f"{folder}/ca.pem", "-CAkey", f"{folder}/ca.key")
    openssl("ca", "-subj", "/CN=gatewarden bench")
    openssl("server", *signed, "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
    openssl("client", *signed, "-subj", "/CN=gatewarden-bench-gw-bench")


def wait_for_link(gateway: Gateway, state: str = "connected") -> None:
    """Wait until the publisher says `state`."""
    wait_for(lambda: cast("Data", gateway.ask("status")["mqtt"])["state"] == state, f"mqtt {state}", 30)
