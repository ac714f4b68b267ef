"""The peers of the keeper, each keeping one `mark` (mark.c) alive: systemd in a container of its own, supervisord, monit."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PATIENCE_S = 30.0
UNIT = """[Unit]
DefaultDependencies=no
StartLimitIntervalSec=0
[Service]
ExecStart={mark} {log}
Restart=always
RestartSec=0
"""
SUPERVISORD = """[supervisord]
nodaemon=true
user=root
logfile=/dev/null
logfile_maxbytes=0
pidfile={folder}/supervisord.pid
[program:mark]
command={mark} {log}
startsecs=0
startretries=1000000
autorestart=true
"""
# Its shortest cycle. What it starts must leave it: it watches pid files, not children.
MONIT = """set daemon 1
set log /dev/null
set pidfile {folder}/monit.pid
set idfile {folder}/monit.id
set statefile {folder}/monit.state
check process mark with pidfile {folder}/mark.pid
  start program = "/bin/sh -c 'setsid {mark} {log} & echo $! >{folder}/mark.pid'"
"""


@dataclass(frozen=True, slots=True)
class Peer:
    """`program` must be installed; `keeping(folder, log)` keeps `folder`/mark alive while its block runs."""

    program: str
    keeping: Callable[[Path, Path], AbstractContextManager[None]]


@contextmanager
def _running(*command: str) -> Iterator[None]:
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as child:
        try:
            yield
        finally:
            child.send_signal(signal.SIGTERM)
            try:
                child.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                child.kill()


@contextmanager
def _systemd(folder: Path, log: Path) -> Iterator[None]:
    """Boot this machine's own systemd in a container with an empty root over this /usr, with nothing but our unit."""
    unit = folder / "mark.service"
    unit.write_text(UNIT.format(mark=folder / "mark", log=log))
    places = (f"--bind={folder}", f"--bind-ro={unit}:/etc/systemd/system/mark.service")
    how = ("--quiet", "--volatile=yes", "--directory=/", "--boot", "--register=no", "--keep-unit", "--kill-signal=SIGKILL")
    with _running("systemd-nspawn", *how, *places, f"--machine={folder.name}", "systemd.unit=mark.service"):
        yield


@contextmanager
def _supervisord(folder: Path, log: Path) -> Iterator[None]:
    config = folder / "supervisord.conf"
    config.write_text(SUPERVISORD.format(folder=folder, mark=folder / "mark", log=log))
    with _running("supervisord", "-c", str(config)):
        yield


@contextmanager
def _monit(folder: Path, log: Path) -> Iterator[None]:
    config = folder / "monitrc"
    config.write_text(MONIT.format(folder=folder, mark=folder / "mark", log=log))
    config.chmod(0o600)
    with _running("monit", "-I", "-c", str(config)):
        yield
    with suppress(OSError, ValueError):
        subprocess.run(["kill", (folder / "mark.pid").read_text().strip()], stderr=subprocess.DEVNULL, check=False)


PEERS: Mapping[str, Peer] = {
    "systemd": Peer("systemd-nspawn", _systemd),
    "supervisord": Peer("supervisord", _supervisord),
    "monit": Peer("monit", _monit),
}
