"""A kernel whose BTF is hidden, in a mount namespace: a file in its place (tier C), bad files, and nothing (tier E)."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent import probes
from tests.agents import BIN, agent
from tests.brokers import wait_for

pytestmark = [pytest.mark.kernel, pytest.mark.root]

BTF = Path("/sys/kernel/btf/vmlinux")
NAMES = ("timers", "run_queue", "process_exit", "softirq", "irq")
PROBES = f"[probes]\nenabled = {json.dumps(NAMES)}\n[probes.timers]\nhrtimer_late_us = 100\n"


def without(*folders: str) -> tuple[str, ...]:
    """Give the command that runs another one where BTF, and these folders, are empty."""
    hide = " && ".join(f"mount -t tmpfs hidden {folder}" for folder in ("/sys/kernel/btf", *folders))
    return ("unshare", "-m", "sh", "-c", f'{hide} && exec "$@"', "sh")


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """Give a copy of the kernel's BTF."""
    return Path(shutil.copy(BTF, tmp_path / "vmlinux.btf"))


def served(path: Path) -> None:
    """Run agentd without the kernel's BTF: tier C, all probes ok, live expiries."""
    with agent(path, *without()) as found:
        status = found.status()
        assert status["tier"] == "C", status["tier_reason"]
        assert {(row["name"], row["state"], row["origin"]) for row in status["probes"]} == {
            (name, "ok", "loaded") for name in NAMES
        }
        measured = found.ctl("timers", "--seconds", "1")[1]
        assert sum(row["count"] for row in measured["timers"]) > 0
        wait_for(lambda: found.ctl("events", "--kind", "timer.late")[1]["events"], "a late timer")


def test_a_file_stands_for_the_kernels_btf(copy: Path, lab_config: Callable[..., Path]) -> None:
    """Tier C: the raw tracepoint twins of all probes are fitted by the file, attached and read, events included."""
    served(lab_config(f'{PROBES}[bpf]\nbtf_path = "{copy}"\n'))


def test_a_minimal_file_does_too(copy: Path, tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """Pins that what `bpftool gen min_core_btf` leaves (some 10 kB, no signature that no object asks for) is enough."""
    bpftool = shutil.which("bpftool", path="/usr/sbin:/usr/bin:/sbin:/bin")
    if bpftool is None:
        pytest.skip("bpftool is not installed")
    minimal = tmp_path / "minimal.btf"
    objects = [str(probes.object_path(name)) for name in NAMES]
    subprocess.run([bpftool, "gen", "min_core_btf", str(copy), str(minimal), *objects], check=True)
    served(lab_config(f'{PROBES}[bpf]\nbtf_path = "{minimal}"\n'))


@pytest.mark.parametrize("content", ["an ELF file without BTF", "the head of a BTF file"])
def test_a_file_without_types_is_named(content: str, copy: Path, lab_config: Callable[..., Path]) -> None:
    """A file whose first bytes look well fails in the loader: every probe names it, and the key to mend."""
    copy.write_bytes(Path("/bin/true").read_bytes() if content.startswith("an ELF") else copy.read_bytes()[:4096])
    with agent(lab_config(f'{PROBES}[bpf]\nbtf_path = "{copy}"\n'), *without()) as found:
        for row in found.status()["probes"]:
            assert row["state"] == "degraded"
            assert f"libbpf finds no BTF in {copy}" in row["reason"]
            assert row["remedy"] == "[bpf] btf_path must name the BTF of exactly this kernel"


def test_without_btf_and_bcc_each_probe_says_what_to_install(lab_config: Callable[..., Path]) -> None:
    """Tier E: the reason and the one line that ends it, in each probe, in the tier and in doctor."""
    path = lab_config(PROBES)
    where = without("/usr/lib/python3/dist-packages")
    with agent(path, *where) as found:
        status = found.status()
        assert status["tier"] == "E"
        assert "BCC (python3-bpfcc) is not installed" in status["tier_reason"]
        for row in status["probes"]:
            assert row["reason"].startswith("the kernel has no BTF, and BCC (python3-bpfcc) is not installed")
            assert row["remedy"].startswith("apt install python3-bpfcc")
    doctor = subprocess.run(
        [*where, str(BIN / "agentctl"), "--config", str(path), "doctor", "--json"], capture_output=True, text=True, check=False
    )
    (tier,) = [check for check in json.loads(doctor.stdout)["checks"] if check["name"] == "tier"]
    assert tier["remedy"].startswith("apt install python3-bpfcc")
