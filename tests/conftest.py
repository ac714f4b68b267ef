"""The session as a real gateway has it, and the fixtures that more than one folder of tests uses.

Tests say by marker what they need (`MARKERS`); where the machine lacks it they are skipped, with the reason in the summary.
"""

from __future__ import annotations

import contextlib
import grp
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from agent.errors import BpfError
from agent.linux import bpf, facts

ROOT = Path(__file__).parent.parent
MARKERS = ("kernel", "root", "broker", "host_pids", "kmsg")
BPF_MAP_CREATE = 0
# What a hardened gateway has: no kernel pointers and no kernel log for anybody without the capability.
SYSCTLS = ("kernel/dmesg_restrict", "kernel/kptr_restrict")

os.environ["PATH"] += ":/usr/sbin:/sbin"  # mosquitto and mount helpers, for whoever runs pytest as an ordinary user


@cache
def lacking(marker: str) -> str:
    """Say why tests of `marker` cannot run here; empty if they can."""
    if marker == "broker":
        return "" if shutil.which("mosquitto") else "mosquitto is not installed"
    if marker == "host_pids":
        return "" if facts.pid_namespace() == "initial" else "own PID namespace, and eBPF tells the pids of the host"
    if marker == "kmsg":
        return "" if Path("/dev/kmsg").exists() else "no /dev/kmsg (a container)"
    if os.geteuid() != 0:
        return "needs root"
    return _no_bpf() if marker == "kernel" else _no_users()


def _no_bpf() -> str:
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return "the kernel has no BTF"
    try:
        # union bpf_attr, BPF_MAP_CREATE: an array of one 4-byte value
        os.close(bpf.bpf_command(BPF_MAP_CREATE, struct.pack("=4I112x", 2, 4, 4, 1), "bpf(2)"))
    except BpfError as error:
        return f"{error} (in a container: a seccomp filter?)"
    return ""


def _no_users() -> str:
    try:
        grp.getgrnam("gatewarden")
    except KeyError:
        return "group gatewarden does not exist: make test applies deploy/sysusers.d/gatewarden.conf"
    as_nobody = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", "import agent"]
    if subprocess.run(as_nobody, cwd="/", capture_output=True, check=False).returncode != 0:
        return f"other users cannot read the checkout: {closed_folder(ROOT)} is closed to them; clone it elsewhere, as to /opt"
    return ""


def closed_folder(path: Path) -> Path:
    """Give the outermost folder on the way to `path` that others may not enter, else `path` itself."""
    way = [*reversed(path.parents), path]
    return next((folder for folder in way if folder.stat().st_mode & 0o005 != 0o005), path)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip what this machine cannot run."""
    for marker in MARKERS:
        if item.get_closest_marker(marker) and lacking(marker):
            pytest.skip(f"{marker}: {lacking(marker)}")


@pytest.fixture(scope="session", autouse=True)
def hardened() -> Iterator[None]:
    """Restrict kernel pointers, the kernel log and /sys/fs/bpf for this session, as a real gateway has them."""
    with contextlib.ExitStack() as undo:
        if os.geteuid() == 0:
            for name in SYSCTLS:
                _set(Path("/proc/sys", name), "1", undo)
            _close(Path("/sys/fs/bpf"), undo)
        yield


def _set(path: Path, value: str, undo: contextlib.ExitStack) -> None:
    with contextlib.suppress(OSError):  # /proc/sys is read-only in most containers
        before = path.read_text()
        path.write_text(value)
        undo.callback(path.write_text, before)


def _close(folder: Path, undo: contextlib.ExitStack) -> None:
    with contextlib.suppress(OSError):
        before = folder.stat().st_mode & 0o7777
        folder.chmod(0o700)
        undo.callback(folder.chmod, before)


@pytest.fixture
def bpffs(tmp_path: Path) -> Iterator[Path]:
    """Give a bpffs of its own, root:gatewarden 0750, as the loader expects it (needs root)."""
    folder = tmp_path / "bpf"
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "bpf", "bpf", str(folder)], check=True)
    try:
        os.chown(folder, 0, grp.getgrnam("gatewarden").gr_gid)
        folder.chmod(0o750)
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def lab_config(tmp_path: Path) -> Callable[..., Path]:
    """Give a function that writes an agent.toml with directories under tmp_path, `more` TOML behind, and returns its path."""

    def write(more: str = "") -> Path:
        for name in ("state", "run", "bpf"):
            (tmp_path / name).mkdir(exist_ok=True)
        path = tmp_path / "agent.toml"
        path.write_text(
            f'[gateway]\nsite = "test"\nname = "gw-test"\n[paths]\nstate_dir = "{tmp_path}/state"\n'
            f'runtime_dir = "{tmp_path}/run"\nbpffs_dir = "{tmp_path}/bpf"\n{more}'
        )
        return path

    return write
