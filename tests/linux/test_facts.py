"""Facts: parsers on text, reading on fixture trees, and the real machine."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config import Paths
from agent.linux import facts

MOUNTS = """proc /proc proc rw 0 0
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
tmpfs /run/gatewarden-bpf tmpfs rw 0 0
bpf /run/gatewarden-bpf bpf rw,mode=750 0 0
x /with\\040space ext4 rw 0 0
short
"""
STATUS = "Name:\tagentd\nCapPrm:\t0000000000000000\nCapEff:\t000000c000000000\n"


def tree(root: Path, files: dict[str, str]) -> Path:
    """Write `files` below `root` and give it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


GATEWAY = {
    "proc/sys/kernel/osrelease": "6.1.0-50-amd64\n",
    "proc/sys/kernel/unprivileged_bpf_disabled": "2\n",
    "proc/sys/kernel/perf_event_paranoid": "3\n",
    "proc/sys/kernel/kptr_restrict": "1\n",
    "proc/sys/kernel/dmesg_restrict": "1\n",
    "proc/self/status": STATUS,
    "proc/self/mounts": MOUNTS,
    "proc/cmdline": "quiet\n",
    "proc/pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
    "sys/kernel/btf/vmlinux": "",
    "sys/kernel/security/lockdown": "none [integrity] confidentiality\n",
    "sys/bus/event_source/devices/kprobe/type": "6\n",
    "sys/class/rtc/rtc0/since_epoch": "1796000000\n",
    "etc/passwd": "root:x:0:0::/root:/bin/sh\ngatewarden:x:990:990::/:/sbin/nologin\n",
    "etc/group": "root:x:0:\ngatewarden:x:990:\ngatewarden-work:x:991:\n",
    "usr/lib/aarch64-linux-gnu/libbpf.so.1": "",
}


def test_a_gateway(tmp_path: Path) -> None:
    """Every fact of a Debian 12 with kernel 6.1 and an agent with two capabilities."""
    found = facts.read(Paths(), tree(tmp_path, GATEWAY))
    assert found.release == "6.1.0-50-amd64"
    assert (found.bpf, found.btf, found.kprobes, found.libbpf, found.psi) == (True, True, True, True, True)
    assert found.lockdown == "integrity"
    assert found.sysctls == {"unprivileged_bpf_disabled": 2, "perf_event_paranoid": 3, "kptr_restrict": 1, "dmesg_restrict": 1}
    assert found.capabilities == frozenset({"BPF", "PERFMON"})
    assert found.bpffs.mounted is True
    assert found.missing_users == ("gatewarden-work",)
    assert found.missing_groups == ()
    assert found.rtc_s == 1_796_000_000
    assert found.cgroup == "hybrid"


def test_the_pid_namespace(tmp_path: Path) -> None:
    """The initial one has a fixed number in every kernel; any other is a container's; without /proc it is not known."""
    link = tmp_path / "self/ns/pid"
    assert facts.pid_namespace(tmp_path) is None
    link.parent.mkdir(parents=True)
    link.symlink_to("pid:[4026531836]")
    assert facts.pid_namespace(tmp_path) == "initial"
    link.unlink()
    link.symlink_to("pid:[4026532301]")
    assert facts.pid_namespace(tmp_path) == "own"


def test_an_empty_machine(tmp_path: Path) -> None:
    """Without /proc and /sys nothing is known, and nothing is guessed."""
    found = facts.read(Paths(), tmp_path)
    assert (found.release, found.bpf, found.btf, found.libbpf, found.bcc_lacks is None) == ("", None, False, False, False)
    assert found.capabilities is None
    assert found.bpffs.mounted is None
    assert found.missing_users is None
    assert found.lockdown is None
    assert found.cgroup is None
    assert set(found.sysctls.values()) == {None}


def test_a_kernel_without_bpf(tmp_path: Path) -> None:
    """A /proc without the sysctl is a kernel without bpf(2)."""
    assert facts.read(Paths(), tree(tmp_path, {"proc/sys/kernel/osrelease": "4.9.140-tegra\n"})).bpf is False


def test_external_btf_and_bcc(tmp_path: Path) -> None:
    """The places where libbpf looks, before them the configured file; and what BCC needs: its module and the headers."""
    root = tree(
        tmp_path,
        {
            "proc/sys/kernel/osrelease": "5.10.104-tegra\n",
            "usr/lib/debug/boot/vmlinux-5.10.104-tegra": "",
            "usr/lib/python3/dist-packages/bcc/__init__.py": "",
            "lib/modules/5.10.104-tegra/build/include/linux/sched.h": "",
        },
    )
    found = facts.read(Paths(), root)
    assert found.external_btf == "/usr/lib/debug/boot/vmlinux-5.10.104-tegra"
    assert found.bcc_lacks is None
    assert facts.read(Paths(), root, btf_path=Path("/opt/l4t.btf")).external_btf == "/opt/l4t.btf"


def test_bpffs_folder(tmp_path: Path) -> None:
    """Mode, group and pins of the bpffs folder."""
    place = tree(tmp_path, {"run/gatewarden-bpf/abc/map": ""}) / "run/gatewarden-bpf"
    place.chmod(0o750)
    found = facts.read(Paths(), tmp_path).bpffs
    assert (found.mode, found.group, found.pinned) == (0o750, "root" if os.getegid() == 0 else found.group, True)
    (place / "abc/map").unlink()
    (place / "abc").rmdir()
    assert facts.read(Paths(), tmp_path).bpffs.pinned is False


def test_folders(tmp_path: Path) -> None:
    """A folder that is there tells its space; one that is not, or is a file, is none."""
    there = facts.folder(tmp_path)
    assert there.exists
    assert there.writable
    assert (there.free_bytes or 0) > 0
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file", tmp_path / "none", tmp_path / "file" / "below"):
        assert facts.folder(path) == facts.Folder(str(path), exists=False, writable=False)


@pytest.mark.root
def test_what_an_ordinary_user_sees(tmp_path: Path) -> None:
    """A closed folder is `not there` or `not writable` for another uid, not an exception."""
    closed = tmp_path / "closed"
    (closed / "inner").mkdir(parents=True)
    closed.chmod(0o700)
    pid = os.fork()
    if pid == 0:
        os.setresuid(65534, 65534, 65534)
        inner, outer = facts.folder(closed / "inner"), facts.folder(Path("/root"))
        os._exit(0 if not inner.exists and not outer.writable else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_the_real_machine() -> None:
    """The host of the tests has a kernel, mounts and an answer of adjtimex(2)."""
    found = facts.read()
    assert found.release == os.uname().release
    assert found.uid == os.geteuid()
    assert found.cgroup is not None
    assert found.capabilities is not None
    assert found.clock_synchronised in {True, False, None}


@pytest.mark.parametrize(
    ("text", "cmdline", "expected"),
    [
        ("[none] integrity confidentiality\n", None, "none"),
        ("none integrity [confidentiality]\n", "lockdown=integrity", "confidentiality"),
        (None, "root=/dev/vda lockdown=confidentiality quiet", "confidentiality"),
        (None, "nolockdown=integrity", None),
        ("rubbish", None, None),
        (None, None, None),
    ],
)
def test_lockdown(text: str | None, cmdline: str | None, expected: str | None) -> None:
    """The bracketed word; without securityfs the command line; else unknown."""
    assert facts.parse_lockdown(text, cmdline) == expected


def test_mounts_and_cgroups() -> None:
    """The last mount on a point shows; escapes are undone; the hierarchy follows from the types."""
    table = facts.parse_mounts(MOUNTS)
    assert table is not None
    assert table["/run/gatewarden-bpf"] == "bpf"
    assert table["/with space"] == "ext4"
    assert facts.parse_cgroup("c /sys/fs/cgroup cgroup2 rw 0 0\n") == "v2"
    assert facts.parse_cgroup("c /sys/fs/cgroup/cpu cgroup rw 0 0\n") == "v1"
    assert facts.parse_cgroup("proc /proc proc rw 0 0\n") == "none"
    assert facts.parse_cgroup(None) is None


@given(st.text() | st.none(), st.text())
def test_parsers_take_any_text(text: str | None, more: str) -> None:
    """Whatever a file holds: a value of the promised type or None, never an exception."""
    assert facts.parse_lockdown(text, more) in {None, "none", "integrity", "confidentiality"}
    assert isinstance(facts.parse_integer(text), int | None)
    assert isinstance(facts.capabilities(text), frozenset | None)
    assert isinstance(facts.parse_names(text), frozenset | None)
    assert isinstance(facts.parse_mounts(text), dict | None)
    assert facts.parse_cgroup(text) in {None, "v2", "hybrid", "v1", "none"}


@given(st.integers(0, 2**64 - 1))
def test_capabilities_are_bits(bits: int) -> None:
    """Exactly the named bits of CapEff are found."""
    found = facts.capabilities(f"CapEff:\t{bits:016x}\n")
    assert found == frozenset(name for name, bit in facts.CAPABILITIES.items() if bits >> bit & 1)
