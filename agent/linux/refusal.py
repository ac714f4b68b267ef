"""What makes loading any program wrong before it is tried: one line instead of the verifier's, or of a dead machine."""

from __future__ import annotations

from pathlib import Path

from agent.errors import NotPermitted, Unsupported
from agent.linux import procfs
from agent.linux.facts import parse_lockdown
from agent.linux.realtime import ring_sleeps


def check(root: Path = procfs.ROOT, btf: Path | None = None) -> None:
    """Raise NotPermitted on a kernel that is locked down to confidentiality, Unsupported on one where a ring could sleep.

    `btf` is the file that stands for the kernel's own BTF, if one does.
    """
    lockdown = parse_lockdown(procfs.read(root / "sys/kernel/security/lockdown"), procfs.read(root / "proc/cmdline"))
    if lockdown == "confidentiality":
        # The helpers that read kernel memory are withheld (LOCKDOWN_BPF_READ_KERNEL): to the verifier they are unknown.
        reason = "the kernel is locked down to confidentiality: no program may read its memory"
        raise NotPermitted(reason, "boot with lockdown=integrity")
    if ring_sleeps(root, btf):
        raise Unsupported(
            "this real-time kernel takes a sleeping lock for ring buffers, in interrupts too (CVE-2024-50138)",
            'a kernel that has "bpf: Use raw_spinlock_t in ringbuf"',
        )
