"""Real-time kernels (PREEMPT_RT), where every spinlock_t sleeps, and with it whoever wants a place in a ring buffer."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from agent.linux import procfs
from agent.linux.btf import KERNEL, member_type

ROOT = Path("/")
_SLEEPS = (None, "spinlock_t")  # what cannot be known counts as the worse


def realtime(root: Path = ROOT) -> bool:
    """Whether the kernel is built with PREEMPT_RT: by the file that the RT patches add, or by the kernel's own build line."""
    flag = procfs.read(root / "sys/kernel/realtime")
    return (flag or "").strip() == "1" or "PREEMPT_RT" in (procfs.read(root / "proc/version") or "")


@cache
def ring_sleeps(root: Path = ROOT, btf: Path | None = None) -> bool | None:
    """Whether reserving ring buffer space may sleep; None if the kernel is no real-time one, so nothing of the kind sleeps.

    Asked of the kernel's BTF once (0.1 s), or of the file `btf` that stands for it, since the repair was taken into stable
    series too.
    """
    if not realtime(root):
        return None
    try:
        blob = (btf or root / KERNEL).read_bytes()
    except OSError:
        return True
    return member_type(blob, "bpf_ringbuf", "spinlock") in _SLEEPS
