"""What this machine is and lets us do: the facts that `agent/checks.py` judges. Reading only, nothing is changed.

`read` looks at files below `root` (a fixture tree in tests); the `parse_…` functions read their text. What cannot be known is
None, never False: a file that is absent and one that is not ours to read are different things.
"""

from __future__ import annotations

import grp
import os
import re
import stat
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias

from agent.config import Paths
from agent.linux import bccready, btf, procfs, programs, pstore, timesync, watchdogfacts
from agent.linux.realtime import ring_sleeps
from agent.linux.watchdogfacts import WatchdogFacts
from agent.place import DEFAULT_CONFIG, exposed

ROOT = Path("/")
USERS = ("gatewarden", "gatewarden-work")
CAPABILITIES = {
    "DAC_READ_SEARCH": 2,
    "SYS_ADMIN": 21,
    "SYSLOG": 34,
    "PERFMON": 38,
    "BPF": 39,
}  # include/uapi/linux/capability.h
SYSCTLS = ("unprivileged_bpf_disabled", "perf_event_paranoid", "kptr_restrict", "dmesg_restrict")
_LIBRARIES = ("usr/lib/*-linux-gnu", "usr/lib", "usr/lib64", "lib/*-linux-gnu", "usr/local/lib")

_INITIAL_PID = 0xEFFFFFFC  # include/linux/proc_ns.h, PROC_PID_INIT_INO: the inode of the initial PID namespace

Lockdown: TypeAlias = Literal["none", "integrity", "confidentiality"]
PidNamespace: TypeAlias = Literal["initial", "own"]
Cgroup: TypeAlias = Literal["v2", "hybrid", "v1", "none"]


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder of ours: whether it is there, whether this process may write it, and what is free (None: no limit told)."""

    path: str
    exists: bool
    writable: bool
    free_bytes: int | None = None
    free_inodes: int | None = None


@dataclass(frozen=True, slots=True)
class Bpffs:
    """The bpffs: `mounted`, its permission bits and group, and whether something is pinned that this process can list."""

    path: str
    mounted: bool | None
    mode: int | None = None
    group: str | None = None
    pinned: bool | None = None


@dataclass(frozen=True, slots=True)
class Facts:
    """All of it, at one moment. A field with the default None could not be found out."""

    release: str = ""
    """`uname -r`."""
    bpf: bool | None = None
    """The kernel has bpf(2)."""
    btf: bool = False
    """/sys/kernel/btf/vmlinux is there."""
    external_btf: str = ""
    """Path of a file with this kernel's BTF ([bpf] btf_path, or where libbpf looks), if the kernel itself has none."""
    kprobes: bool = False
    bcc_lacks: tuple[str, str] | None = ("BCC is not installed", "apt install python3-bpfcc")
    """What BCC misses, and the line that installs it; None if it can compile for this kernel."""
    libbpf: bool = False
    lockdown: Lockdown | None = None
    ring_sleeps: bool | None = None
    """A ring buffer's lock may sleep in an interrupt; None without a real-time kernel."""
    sysctls: dict[str, int | None] = field(default_factory=dict)
    uid: int = -1
    capabilities: frozenset[str] | None = None
    """Those of CAPABILITIES in the effective set."""
    exposed: tuple[str, str] | None = None
    """Who else than root may change agent.toml, and the line that ends it; empty texts if nobody may."""
    bpffs: Bpffs = Bpffs("", None)
    missing_users: tuple[str, ...] | None = None
    missing_groups: tuple[str, ...] | None = None
    broker: bool = False
    """The broker's socket is there."""
    state_dir: Folder = Folder("", exists=False, writable=False)
    runtime_dir: Folder = Folder("", exists=False, writable=False)
    clock_synchronised: bool | None = None
    wall_s: float = 0.0
    rtc_s: int | None = None
    """What the battery-backed clock says; None without one."""
    cgroup: Cgroup | None = None
    psi: bool = False
    watchdogs: tuple[WatchdogFacts, ...] = ()
    """Those of the kernel, known without opening one."""
    systemd_watchdog_s: float = 0.0
    """RuntimeWatchdogSec=, 0 if systemd feeds none."""
    boot_covered: bool | None = None
    """The kernel feeds a watchdog that nobody opened for a bounded time only."""
    pstore: tuple[str, bool] | None = None
    """What keeps the log of a panic (empty: nothing), and whether its file system is mounted."""
    pid_namespace: PidNamespace | None = None
    """`own` in most containers: what eBPF tells are the pids of the initial one."""
    systemd: bool = False
    """systemd is the init here."""
    agentctl: str = "agentctl"
    """How root calls agentctl for this agent (`agent.linux.programs`)."""
    load_probes: str = "as root: agentctl probes load"
    """What brings the probes into the kernel."""
    start: str = "agentd"
    """The line that starts this agent."""
    start_broker: str = "python -m agent.broker"
    """The line that starts its broker."""


def read(paths: Paths | None = None, root: Path = ROOT, config: Path = DEFAULT_CONFIG, btf_path: Path | None = None) -> Facts:
    """Take all facts; `config` is the file that remedies name. Never raises; takes a few milliseconds."""
    paths = paths or Paths()
    proc, sysfs = root / "proc", root / "sys"
    release = (procfs.read(proc / "sys/kernel/osrelease") or "").strip()
    mounts = procfs.read(proc / "self/mounts")
    sysctls = {name: parse_integer(procfs.read(proc / "sys/kernel" / name)) for name in SYSCTLS}
    return Facts(
        release=release,
        bpf=_bpf(proc),
        btf=there(root / btf.KERNEL),
        external_btf=btf.external(root, release, btf_path),
        # The PMU of perf kprobes is there exactly with CONFIG_KPROBE_EVENTS, and readable by all, as kallsyms is not.
        kprobes=there(sysfs / "bus/event_source/devices/kprobe"),
        bcc_lacks=bccready.lacking(release, root),
        libbpf=_library(root, "libbpf.so.1"),
        lockdown=parse_lockdown(procfs.read(sysfs / "kernel/security/lockdown"), procfs.read(proc / "cmdline")),
        ring_sleeps=ring_sleeps(root, None if there(root / btf.KERNEL) else btf_path),
        sysctls=sysctls,
        uid=os.geteuid(),
        capabilities=capabilities(procfs.read(proc / "self/status")),
        exposed=exposed(config) or ("", ""),
        bpffs=_bpffs(paths.bpffs_dir, parse_mounts(mounts), root),
        missing_users=_missing(procfs.read(root / "etc/passwd"), USERS),
        missing_groups=_missing(procfs.read(root / "etc/group"), USERS),
        broker=there(paths.broker_socket),
        state_dir=folder(paths.state_dir),
        runtime_dir=folder(paths.runtime_dir),
        clock_synchronised=timesync.synchronised(root),
        wall_s=time.time(),
        rtc_s=parse_integer(procfs.read(sysfs / "class/rtc/rtc0/since_epoch")),
        watchdogs=watchdogfacts.read(root),
        systemd_watchdog_s=watchdogfacts.systemd_s(root),
        boot_covered=watchdogfacts.covers_boot(root),
        pstore=None if (mounted := pstore.mounted(root)) is None else (pstore.backend(root), mounted),
        pid_namespace=pid_namespace(proc),
        systemd=programs.systemd_runs(root),
        agentctl=programs.agentctl(config),
        load_probes=programs.load_probes(config),
        start=programs.start(config, root),
        start_broker=programs.start_broker(config, root),
        cgroup=parse_cgroup(mounts),
        psi=procfs.read(proc / "pressure/cpu") is not None,
    )


def there(path: Path) -> bool:
    """Tell whether `path` exists; one behind a folder that is closed to us does not (Path.exists raises there)."""
    try:
        path.stat()
    except OSError:
        return False
    return True


def pid_namespace(proc: Path = ROOT / "proc") -> PidNamespace | None:
    """Tell whether this process counts pids as the kernel itself does."""
    try:
        link = (proc / "self/ns/pid").readlink().name
    except OSError:
        return None
    return "initial" if link == f"pid:[{_INITIAL_PID}]" else "own"


def parse_integer(text: str | None) -> int | None:
    """Read a file that holds one number; None for anything else."""
    return int(text) if text is not None and re.fullmatch(r"\s*-?[0-9]{1,18}\s*", text) else None


def parse_lockdown(text: str | None, cmdline: str | None) -> Lockdown | None:
    """Read `none [integrity] confidentiality`; without securityfs, what the kernel's command line says."""
    chosen = re.search(r"\[(none|integrity|confidentiality)\]", text or "") or re.search(
        r"(?:^|\s)lockdown=(integrity|confidentiality)(?:\s|$)", cmdline or ""
    )
    names: dict[str, Lockdown] = {"none": "none", "integrity": "integrity", "confidentiality": "confidentiality"}
    return names[chosen[1]] if chosen else None


def capabilities(status: str | None) -> frozenset[str] | None:
    """Give the effective set of /proc/self/status, as far as CAPABILITIES goes."""
    bits = procfs.parse_capabilities(status or "")
    return None if bits is None else frozenset(name for name, bit in CAPABILITIES.items() if bits >> bit & 1)


def parse_mounts(text: str | None) -> dict[str, str] | None:
    """Give file system types by mount point; the last of several on one point is the one that shows (proc(5))."""
    if text is None:
        return None
    rows = (line.split(" ") for line in text.splitlines())
    return {_unescaped(row[1]): row[2] for row in rows if len(row) > 2}


def _unescaped(path: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), path)


def parse_cgroup(mounts: str | None) -> Cgroup | None:
    """Tell the cgroup hierarchy from /proc/self/mounts: unified, both, only the old one, or none."""
    table = parse_mounts(mounts)
    if table is None:
        return None
    types = set(table.values())
    if "cgroup2" in types:
        return "hybrid" if "cgroup" in types else "v2"
    return "v1" if "cgroup" in types else "none"


def parse_names(text: str | None) -> frozenset[str] | None:
    """Give the first fields of passwd(5) or group(5)."""
    return None if text is None else frozenset(line.split(":", 1)[0] for line in text.splitlines() if ":" in line)


def _missing(text: str | None, wanted: tuple[str, ...]) -> tuple[str, ...] | None:
    names = parse_names(text)
    return None if names is None else tuple(name for name in wanted if name not in names)


def _bpf(proc: Path) -> bool | None:
    """Look for the sysctl that exists exactly with CONFIG_BPF_SYSCALL (since 4.4); without /proc nothing is known."""
    return there(proc / "sys/kernel/unprivileged_bpf_disabled") if there(proc / "sys/kernel") else None


def _library(root: Path, name: str) -> bool:
    """Look where ld.so would: loading it to find out would cost its memory (libbcc brings all of LLVM)."""
    return any(next(root.glob(f"{folder}/{name}"), None) for folder in _LIBRARIES)


def _bpffs(path: Path, mounts: dict[str, str] | None, root: Path) -> Bpffs:
    mounted = None if mounts is None else mounts.get(str(path)) == "bpf"
    place = root / str(path).lstrip("/")
    try:
        found = place.stat()
    except OSError:
        return Bpffs(str(path), mounted)
    try:
        group = grp.getgrgid(found.st_gid).gr_name
    except KeyError:
        group = str(found.st_gid)
    try:
        pinned = any(place.iterdir())
    except OSError:
        pinned = None
    return Bpffs(str(path), mounted, found.st_mode & 0o7777, group, pinned)


def folder(path: Path) -> Folder:
    """Look at one of our folders, as this process sees it."""
    try:
        is_folder = stat.S_ISDIR(path.stat().st_mode)
    except OSError:
        is_folder = False
    if not is_folder:
        return Folder(str(path), exists=False, writable=False)
    writable = os.access(path, os.W_OK | os.X_OK)
    try:
        space = os.statvfs(path)
    except OSError:
        return Folder(str(path), exists=True, writable=writable)
    # A file system without a fixed number of inodes (btrfs) says 0 of 0.
    inodes = space.f_favail if space.f_files else None
    return Folder(str(path), exists=True, writable=writable, free_bytes=space.f_bavail * space.f_frsize, free_inodes=inodes)
