"""A container of systemd-nspawn that boots this machine's own root, read-only, with the installed units in it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from tests.brokers import wait_for

ROOT = Path(__file__).parent.parent
BOOT_S = 120.0  # on a busy machine
NSPAWN = pytest.mark.skipif(not shutil.which("systemd-nspawn"), reason="systemd-nspawn is not installed")
HIDDEN = pytest.mark.skipif(
    ROOT.is_relative_to("/tmp") or ROOT.is_relative_to("/var/tmp") or ROOT.parts[1:2] in {("home",), ("root",)},
    reason="this checkout lies where the installed units see nothing (PrivateTmp=, ProtectHome=)",
)


class Machine:
    """A booted container."""

    def __init__(self, boot: subprocess.Popen[bytes]) -> None:
        """Speak to what `boot`, a systemd-nspawn, has started."""
        self.boot = boot

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

    def show(self, unit: str, key: str) -> str:
        """Give one property of a unit."""
        return self.run("systemctl", "show", unit, "--value", "-p", key)

    def up(self) -> bool:
        """Whether systemd has started what it had to."""
        return self.run("systemctl", "is-system-running") in {"running", "degraded"}


_Booted = TypeVar("_Booted", bound=Machine)


def unit(name: str, places: Mapping[str, str]) -> str:
    """Give the text of an installed unit with its `places` put where they are here."""
    text = (ROOT / "deploy/systemd" / name).read_text()
    for theirs, ours in places.items():
        text = text.replace(theirs, ours)
    return text


@contextmanager
def booted(
    kind: Callable[[subprocess.Popen[bytes]], _Booted], name: str, folder: Path, shown: Mapping[Path, Path], *options: str
) -> Iterator[_Booted]:
    """Boot one that sees the checkout and `shown` (ours -> theirs), read-only, our users and folders; skip where none boots.

    Its console goes to `folder/boot.log`. What still runs at the end has its power cut.
    """
    known = ("sysusers", "tmpfiles")
    configured = {ROOT / f"deploy/{each}.d/gatewarden.conf": Path(f"/etc/{each}.d/gatewarden.conf") for each in known}
    bound = {ROOT: ROOT, **configured, **shown}
    how = ("--quiet", "--volatile=yes", "--directory=/", "--boot", "--register=no", "--keep-unit", f"--machine={name}")
    words = (*how, *(f"--bind-ro={ours}:{theirs}" for ours, theirs in bound.items()), *options)
    log = folder / "boot.log"
    with log.open("wb") as file:
        command = ["systemd-nspawn", *words, "systemd.firstboot=off", "systemd.unit=multi-user.target"]
        boot = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    found = kind(boot)
    try:
        wait_for(lambda: found.up() or boot.poll() is not None, lambda: _last_words(log), BOOT_S)
        if boot.poll() is not None:
            pytest.skip(f"systemd-nspawn boots nothing here: {_last_words(log)}")
        yield found
    finally:
        if boot.poll() is None:
            if found.leader:
                subprocess.run(["kill", "-KILL", str(found.leader)], check=False)
            boot.terminate()
            boot.wait(30)


@contextmanager
def folder(name: str) -> Iterator[Path]:
    """Give a folder that a container sees under the same name, and its units too: none for temporary files."""
    made = Path("/srv", name)
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(mode=0o755)
    yield made
    shutil.rmtree(made)


def _last_words(log: Path) -> str:
    return log.read_text(errors="replace")[-300:].strip()
