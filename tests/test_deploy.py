"""What deploy/ brings fits the code, where only an installed gateway would tell that it does not."""

from __future__ import annotations

import re
from pathlib import Path

from agent.linux.pins import loading

DEPLOY = Path(__file__).parent.parent / "deploy"


def test_the_loader_may_lock(tmp_path: Path) -> None:
    """Pins that the loader's unit, whose /run is read-only, may write the lock beside its bpffs, which tmpfiles.d makes."""
    bpffs = "/run/gatewarden-bpf"
    with loading(tmp_path / Path(bpffs).name):
        (lock,) = (f"/run/{path.name}" for path in tmp_path.iterdir())
    unit = (DEPLOY / "systemd/gatewarden-probes.service").read_text()
    assert {bpffs, lock} == {
        word.lstrip("-") for line in re.findall(r"^ReadWritePaths=(.*)$", unit, re.MULTILINE) for word in line.split()
    }
    made = [line.split() for line in (DEPLOY / "tmpfiles.d/gatewarden.conf").read_text().splitlines()]
    assert ["f", lock, "0600", "root", "root", "-"] in made
