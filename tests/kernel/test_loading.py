"""Loading, pinning and reading as the two halves of a real gateway do it: root loads, a user without capabilities reads."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent import config, loader, probes
from agent.config import Config
from agent.errors import Unsupported
from agent.linux import pins
from agent.linux.attached import Attached
from agent.linux.bpf import possible_cpus
from agent.linux.libbpf import Loader
from agent.ports import Hook
from tests.agents import BIN

pytestmark = [pytest.mark.kernel, pytest.mark.root]

READER = """
import json, sys, time
from pathlib import Path
from agent import probes
from agent.linux.attached import Attached
from agent.linux.bpf import possible_cpus
probe = probes.load("timers")
held = Attached.from_pins(Path(sys.argv[1]), possible_cpus())
held.maps.steer(probe.steer(probe.Options(), held.maps))
time.sleep(1)
caps = [line.split()[1] for line in open("/proc/self/status") if line.startswith("CapEff")]
timers = probe.report(None, probe.snapshot(held.maps))["timers"]
try:
    held.maps.maps["callbacks"].update(bytes(4), bytes(held.maps.maps["callbacks"].info.value_size))
    writable = True
except Exception as error:
    writable = type(error).__name__
print(json.dumps({"caps": caps[0], "expiries": sum(row["count"] for row in timers), "writable": writable}))
"""


@pytest.fixture
def settings(bpffs: Path, lab_config: Callable[..., Path]) -> Config:
    """Give a configuration over a fresh bpffs."""
    assert bpffs.is_dir()
    return config.check(lab_config())


def test_a_user_without_capabilities_reads_and_steers_what_root_pinned(settings: Config) -> None:
    """The reader's effective set is empty, it sees live expiries, and the data maps refuse its writes (0640, read-only)."""
    loader.load(settings)
    folder = pins.folder_of(settings.paths.bpffs_dir, "timers", probes.object_path("timers"))
    command = ["setpriv", "--reuid", "65534", "--regid", "gatewarden", "--clear-groups", "--bounding-set", "-all"]
    for parent in settings.paths.bpffs_dir.parents:
        if parent.stat().st_uid == 0 and str(parent).startswith("/tmp/pytest"):
            parent.chmod(0o755)
    result = subprocess.run([*command, sys.executable, "-c", READER, str(folder)], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    seen = json.loads(result.stdout)
    assert int(seen["caps"], 16) == 0
    assert seen["expiries"] > 0
    assert seen["writable"] == "BpfError"


def test_modes_are_those_of_the_contract(settings: Config) -> None:
    """Data maps 0640, ctl, ring and steered maps 0660, links for root alone; everything in group gatewarden."""
    loader.load(settings)
    for name in settings.probes.enabled:
        folder = pins.folder_of(settings.paths.bpffs_dir, name, probes.object_path(name))
        for path in folder.iterdir():
            mode, written = path.stat().st_mode & 0o777, {"ctl", "events", *probes.load(name).STEERED}
            want = 0o600 if path.name.startswith("link_") else 0o660 if path.name in written else 0o640
            assert (path.name, oct(mode)) == (path.name, oct(want))
            assert path.stat().st_gid == pins.group_id()


def test_a_second_load_is_a_no_op_and_counters_go_on(settings: Config) -> None:
    """The same objects are found by their hash: nothing is loaded again, and an upgrade without new objects loses nothing."""
    assert {row.state for row in loader.load(settings)} == {"loaded"}
    before = {path: path.stat().st_ino for path in settings.paths.bpffs_dir.rglob("link_*")}
    assert {row.state for row in loader.load(settings)} == {"present"}
    assert {path: path.stat().st_ino for path in settings.paths.bpffs_dir.rglob("link_*")} == before


def test_an_upgrade_leaves_no_old_object_and_a_killed_loader_no_draft(settings: Config) -> None:
    """Folders of other hashes, of probes that are no longer enabled, and drafts of a killed loader go with the next load."""
    loader.load(settings)
    old, draft = settings.paths.bpffs_dir / "timers-000000000000", settings.paths.bpffs_dir / "irq-0123_draft"
    old.mkdir()
    draft.mkdir()
    loader.load(settings)
    names = {path.name.split("-")[0] for path in pins.loaded_folders(settings.paths.bpffs_dir)}
    assert names == set(settings.probes.enabled)
    assert not old.exists()
    assert not draft.exists()


def test_unload_detaches_everything(settings: Config) -> None:
    """After `probes unload` nothing of ours is in the bpffs (the kernel keeps two files there); a second finds nothing."""
    loader.load(settings)
    assert len(loader.unload(settings)) == len(settings.probes.enabled)
    assert pins.loaded_folders(settings.paths.bpffs_dir) == []
    assert loader.unload(settings) == []


def test_load_mounts_a_bpffs_and_unload_takes_it_away(lab_config: Callable[..., Path]) -> None:
    """Where no bpffs is at bpffs_dir, `load` mounts one of the contract's mode, and `unload` leaves no mount behind."""
    settings = config.check(lab_config())
    assert not pins.is_bpffs(settings.paths.bpffs_dir) or not os.path.ismount(settings.paths.bpffs_dir)
    loader.load(settings)
    try:
        assert pins.is_bpffs(settings.paths.bpffs_dir)
        assert settings.paths.bpffs_dir.stat().st_mode & 0o777 == 0o750
    finally:
        loader.unload(settings)
    assert not pins.is_bpffs(settings.paths.bpffs_dir)


def test_who_may_not_mount_is_told_the_line_to_run(tmp_path: Path) -> None:
    """An ordinary user gets the reason and the command, not a traceback."""
    code = f"from agent.linux import pins; from pathlib import Path; pins.prepare(Path({str(tmp_path / 'none')!r}))"
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "NotPermitted: no bpffs at" in result.stderr
    assert f"mount -t bpf bpf {tmp_path / 'none'}" in result.stderr


def test_two_capabilities_are_enough_to_load() -> None:
    """A uid with CAP_BPF and CAP_PERFMON alone loads, attaches and reads; no other capability, no root."""
    code = (
        "from agent import loader, probes\nfrom agent.linux.libbpf import Loader\n"
        "found = Loader()\n"
        "for name in probes.names():\n    loader.load_object(found, probes.load(name))\n"
        "print('all loaded')"
    )
    caps = "+bpf,+perfmon"
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--inh-caps", caps, "--ambient-caps", caps]
    result = subprocess.run([*command, sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert result.stdout.strip() == "all loaded", result.stderr


def test_without_the_group_nothing_is_pinned(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """`probes load` on a machine without our users says which line makes them, instead of pinning for root alone."""
    (tmp_path / "group").write_text("root:x:0:\n")
    script = f'mount --bind {tmp_path}/group /etc/group && exec "$@"'
    load = [str(BIN / "agentctl"), "--config", str(lab_config()), "probes", "load"]
    command = ["unshare", "-m", "sh", "-c", script, "sh", *load]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert "group gatewarden does not exist" in done.stderr
    assert "useradd --system --user-group" in done.stderr
    assert list((tmp_path / "bpf").iterdir()) == []


def test_without_any_capability_the_reason_and_the_remedy_are_named() -> None:
    """The kernel's EPERM becomes "run as root or with CAP_BPF and CAP_PERFMON"."""
    code = (
        "from agent import loader, probes\n"
        "from agent.linux.libbpf import Loader\n"
        "loader.load_object(Loader(), probes.load('irq'))"
    )
    command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", sys.executable, "-c", code]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "agent.errors.NotPermitted" in result.stderr


@pytest.mark.parametrize("attach", ["tp_btf", "raw_tp"])
def test_both_attach_types_load_for_every_probe(attach: str) -> None:
    """The twins share one body: each passes the verifier of this kernel."""
    found = Loader()
    try:
        for name in probes.names():
            assert found.load(probes.object_path(name), probes.load(name).HOOKS, attach=attach).links
    finally:
        found.close()


def test_an_unknown_signature_is_refused_by_name() -> None:
    """A tracepoint whose parameters are not the ones the program was written for is never attached."""
    found = Loader()
    strange = Hook("sched_switch", ("task_struct *, bool",))
    with pytest.raises(Unsupported, match=r"sched_switch has an unknown signature \(bool, task_struct"):
        found.load(probes.object_path("run_queue"), (strange,))
    with pytest.raises(Unsupported, match="tracepoint no_such_thing is missing"):
        found.load(probes.object_path("run_queue"), (Hook("no_such_thing", ()),))


def test_an_object_opened_from_pins_gives_its_fds_back(settings: Config) -> None:
    """Opening and closing an object ten times leaks no fd."""
    loader.load(settings)
    folder = pins.folder_of(settings.paths.bpffs_dir, "timers", probes.object_path("timers"))
    before = _open_fds()
    for _ in range(10):
        Attached.from_pins(folder, possible_cpus()).close()
    assert _open_fds() == before


def _open_fds() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
