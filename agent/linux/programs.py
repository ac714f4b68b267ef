"""How a person starts our programs on this machine: for remedies, which must lead somewhere when they are copied to a shell."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

from agent.place import DEFAULT_CONFIG, exposed

# Where sudo and a root shell look (secure_path of Debian's sudoers): a virtual environment is not among them.
ROOTS_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
_SYSTEMD = Path("/run/systemd/system")  # sd_booted(3)
_ADD_USER = "useradd --system --user-group --home-dir / --no-create-home --shell /usr/sbin/nologin"


def agentctl(config: Path) -> str:
    """Give `agentctl`, by its path where root's shell would not find it, with the `--config` that leads to this agent."""
    return _call("agentctl", config)


_AS_ROOT = "run agentd as root, with a configuration of root's; in a checkout: sudo make run"


def load_probes(config: Path, action: str = "load") -> str:
    """Give what pins the probes of `config`, as root; where root would refuse that file, what traces the kernel anyway."""
    if found := exposed(config):
        return f"root follows no file that others may change ({found[0]}): {_AS_ROOT}"
    return f"as root: {agentctl(config)} probes {action}"


def start(config: Path, root: Path = Path("/")) -> str:
    """Give the line that starts agentd on `config`: the unit's, where systemd runs and the unit uses that file."""
    installed = config == DEFAULT_CONFIG and systemd_runs(root)
    return "systemctl start gatewarden" if installed else _call("agentd", config)


def start_broker(config: Path, root: Path = Path("/")) -> str:
    """Give the line that starts the root broker of `config`: its socket, where the units are used."""
    if config == DEFAULT_CONFIG and systemd_runs(root):
        return "systemctl enable --now gatewarden-broker.socket"
    if exposed(config):
        return _AS_ROOT
    return shlex.join(("sudo", sys.executable, "-P", "-m", "agent.broker", "--config", str(config.absolute())))


def systemd_runs(root: Path = Path("/")) -> bool:
    """Whether systemd is the init here, so that systemctl, journalctl and timedatectl have somebody to talk to."""
    return root.joinpath(*_SYSTEMD.parts[1:]).is_dir()


def add_users(names: tuple[str, ...] | list[str]) -> str:
    """Give the line that makes system users, each with a group of the same name, as deploy/sysusers.d has them."""
    return " && ".join(f"{_ADD_USER} {name}" for name in names)


def _call(name: str, config: Path) -> str:
    ours = Path(sys.executable).with_name(name)
    known = any(os.access(f"{folder}/{name}", os.X_OK) for folder in ROOTS_PATH) or not ours.exists()
    words = [name if known else str(ours)]
    return shlex.join(words if config == DEFAULT_CONFIG else [*words, "--config", str(config.absolute())])
