"""The words of remedies: which program, by which path, on which configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent.linux import programs
from agent.place import DEFAULT_CONFIG


def test_a_remedy_names_the_configuration_that_is_in_use() -> None:
    """Whatever is copied to a shell in another directory reaches this very agent; the default file needs no option."""
    assert programs.agentctl(Path("/etc/a b.toml")).endswith("agentctl --config '/etc/a b.toml'")
    assert programs.agentctl(Path("deploy/lab/agent.toml")).endswith(f" --config {Path.cwd()}/deploy/lab/agent.toml")
    assert "--config" not in programs.agentctl(DEFAULT_CONFIG)


@pytest.mark.skipif(
    any(os.access(f"{folder}/agentctl", os.X_OK) for folder in programs.ROOTS_PATH), reason="installed for root"
)
def test_in_a_checkout_the_program_is_that_of_its_environment() -> None:
    """Sudo does not look into .venv: the path is written out, and what it names answers."""
    words = programs.agentctl(DEFAULT_CONFIG).split()
    assert words[0] == str(Path(sys.executable).with_name("agentctl"))
    assert subprocess.run([words[0], "--version"], capture_output=True, check=False).returncode == 0


def test_where_root_would_refuse_the_file_it_is_not_sent_there(tmp_path: Path) -> None:
    """The remedy for an ordinary user's own configuration is one that root accepts, not `probes load` on that file."""
    config = tmp_path / "agent.toml"
    config.write_text("")
    config.chmod(0o666)
    assert "probes load" not in programs.load_probes(config)
    assert "sudo make run" in programs.load_probes(config)
    assert programs.load_probes(DEFAULT_CONFIG).endswith("agentctl probes load")


def test_the_unit_is_named_only_where_systemd_runs_and_uses_that_file(tmp_path: Path) -> None:
    """Elsewhere the plain command: systemctl would have nobody to talk to, or start an agent on another file."""
    assert "systemctl" not in programs.start(DEFAULT_CONFIG, tmp_path)
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert programs.start(DEFAULT_CONFIG, tmp_path) == "systemctl start gatewarden"
    assert programs.start(Path("/tmp/x.toml"), tmp_path).endswith("agentd --config /tmp/x.toml")
