"""What agentd says before it starts: without /proc or /sys, in a folder of somebody else, over files of somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.errors import GatewardenError, StoreError
from agent.linux import ready
from tests.agents import BIN, NOBODY, open_to_all


def test_this_machine_is_ready(tmp_path: Path) -> None:
    """Nothing is raised here; a folder that is not there is made."""
    ready.machine()
    ready.folder(tmp_path / "a/b")
    assert (tmp_path / "a/b").stat().st_mode & 0o027 == 0


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    """It is an error of ours that names the path."""
    (tmp_path / "x").write_text("")
    with pytest.raises(StoreError, match=f"^{tmp_path}/x: File exists; as root: install -d"):
        ready.folder(tmp_path / "x")


def test_without_proc_or_sys_the_mount_is_named(tmp_path: Path) -> None:
    """First /proc, then /sys: one line for each, with the command that mends it."""
    with pytest.raises(GatewardenError, match=r"^/proc/self/stat: .*; mount -t proc proc /proc$"):
        ready.machine(tmp_path)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/stat").write_text("")
    with pytest.raises(GatewardenError, match=r"mount -t sysfs sysfs /sys$"):
        ready.machine(tmp_path)


@pytest.mark.root
def test_agentd_without_sys_says_so_in_one_line_and_ends_with_2(lab_config: Callable[..., Path]) -> None:
    """In a mount namespace where /sys is empty: no traceback."""
    script = 'mount -t tmpfs tmpfs /sys && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(BIN / "agentd"), "--config", str(lab_config())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith("agentd: /sys/devices/system/cpu/possible: ")


@pytest.mark.root
def test_files_of_another_user_are_named_with_their_owner(tmp_path: Path) -> None:
    """As after `make run` by root: the file and its owner, not a folder that is well."""
    open_to_all(tmp_path, tmp_path)
    (tmp_path / "outbox.db").write_bytes(b"")
    (tmp_path / "outbox.db").chmod(0o640)
    os.chown(tmp_path / "outbox.db", 0, 0)
    code = f"from pathlib import Path; from agent.linux import ready; ready.folder(Path({str(tmp_path)!r}))"
    done = subprocess.run([*NOBODY, sys.executable, "-c", code], cwd="/", capture_output=True, text=True, check=False)
    assert f"{tmp_path}/outbox.db belongs to root and is closed to nobody; run as root, or as root: chown" in done.stderr


@pytest.mark.root
@pytest.mark.parametrize("name", ["state_dir", "runtime_dir"])
def test_a_read_only_file_system_is_called_that(tmp_path: Path, name: str) -> None:
    """It is told as such, not that somebody else owns it: one line, exit 2."""
    (tmp_path / name).mkdir()
    config = tmp_path / "agent.toml"
    config.write_text(f'[paths]\nstate_dir = "{tmp_path}/state_dir"\nruntime_dir = "{tmp_path}/runtime_dir"\n')
    script = f'mount -t tmpfs -o ro tmpfs {tmp_path / name} && exec "$@"'
    command = ["unshare", "-m", "sh", "-c", script, "sh", str(BIN / "agentd"), "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert done.stderr.startswith(f"agentd: {tmp_path / name}: Read-only file system; mount it writable")
