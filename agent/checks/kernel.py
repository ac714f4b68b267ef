"""Checks of the kernel, and the tier that it allows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from agent.checks._base import Check, may_load, version
from agent.linux.facts import Facts

OLDEST = (5, 10)  # what is supported at all
_REPAIRED = 'a kernel that has "bpf: Use raw_spinlock_t in ringbuf"'


class Tier(NamedTuple):
    """How far this kernel lets us look: A most, E nothing but /proc; `reason` says why not further."""

    letter: str
    reason: str


def tier(facts: Facts) -> Tier:
    """Give the tier that this process reaches here: A kernel BTF and kprobes, B BTF, C external BTF, D BCC, E none."""
    return _refused(facts) or _possible(facts)


def _refused(facts: Facts) -> Tier | None:
    if facts.bpf is None:
        return Tier("E", "whether the kernel has bpf(2) cannot be seen: /proc is not mounted")
    if not facts.bpf:
        return Tier("E", "the kernel has no bpf(2) (CONFIG_BPF_SYSCALL)")
    if facts.lockdown == "confidentiality":
        return Tier("E", "the kernel is locked down to confidentiality")
    if facts.ring_sleeps:
        return Tier("E", "this real-time kernel's ring buffers take a sleeping lock")
    if not may_load(facts) and not facts.bpffs.pinned:
        return Tier("E", "this user may not load programs, and none are pinned that it can read")
    return None


def _possible(facts: Facts) -> Tier:
    if facts.btf and facts.kprobes:
        return Tier("A", "kernel BTF and kprobes")
    if facts.btf:
        return Tier("B", "kernel BTF, but no kprobes (CONFIG_KPROBE_EVENTS)")
    if facts.external_btf:
        return Tier("C", f"no kernel BTF, but {facts.external_btf}")
    if facts.bcc_lacks is None or facts.bpffs.pinned:  # without BTF nobody else has pinned
        return Tier("D", "no BTF, but BCC and kernel headers: timers, run_queue and process_exit alone")
    return Tier("E", f"no BTF, and {facts.bcc_lacks[0]}")


def checks(facts: Facts) -> Iterator[Check]:
    """Yield the checks of the group."""
    yield _release(facts.release)
    reached = tier(facts)
    low = {
        "D": "for all probes: a kernel with CONFIG_DEBUG_INFO_BTF=y, or its BTF as [bpf] btf_path",
        "E": _tier_remedy(facts),
    }
    yield Check(
        "kernel",
        "tier",
        "degraded" if reached.letter in low else "ok",
        f"{reached.letter}: {reached.reason}",
        low.get(reached.letter, ""),
    )
    yield _lockdown(facts)
    yield from _realtime(facts)
    yield _libbpf(facts)
    yield (
        Check("kernel", "PSI", "ok", "/proc/pressure is there")
        if facts.psi
        else Check("kernel", "PSI", "degraded", "no pressure stall information", "boot with psi=1 (CONFIG_PSI)")
    )
    yield _cgroup(facts)


def _release(release: str) -> Check:
    found = version(release)
    if found is None:
        return Check("kernel", "release", "unknown", "the kernel's release cannot be read", "mount -t proc proc /proc")
    if found < OLDEST:
        return Check("kernel", "release", "critical", f"{release} is older than 5.10", "install a kernel >= 5.10")
    return Check("kernel", "release", "ok", release)


def _tier_remedy(facts: Facts) -> str:
    if facts.bpf is None:
        return "mount -t proc proc /proc"
    if facts.lockdown == "confidentiality":
        return "boot with lockdown=integrity"
    if facts.ring_sleeps:
        return _REPAIRED
    if facts.bpf and (facts.btf or facts.external_btf or facts.bcc_lacks is None) and not may_load(facts):
        return facts.load_probes
    if facts.bpf and facts.bcc_lacks:
        return f"{facts.bcc_lacks[1]}; lighter: a kernel with CONFIG_DEBUG_INFO_BTF=y, or [bpf] btf_path"
    return "a kernel with CONFIG_BPF_SYSCALL=y and CONFIG_DEBUG_INFO_BTF=y"


def _lockdown(facts: Facts) -> Check:
    if facts.lockdown is None:
        mount = "mount -t securityfs securityfs /sys/kernel/security"
        return Check("kernel", "lockdown", "unknown", "/sys/kernel/security/lockdown cannot be read", mount)
    if facts.lockdown == "confidentiality":
        return Check(
            "kernel", "lockdown", "degraded", "confidentiality: no program may read memory", "boot with lockdown=integrity"
        )
    return Check("kernel", "lockdown", "ok", facts.lockdown)


def _realtime(facts: Facts) -> Iterator[Check]:
    """Nothing of an ordinary kernel."""
    if facts.ring_sleeps is False:
        yield Check("kernel", "real-time", "ok", "PREEMPT_RT, and the lock of ring buffers does not sleep")
    elif facts.ring_sleeps:
        reason = "the lock of ring buffers sleeps, in interrupts too (CVE-2024-50138): no probe is loaded"
        yield Check("kernel", "real-time", "degraded", reason, _REPAIRED)


def _libbpf(facts: Facts) -> Check:
    if facts.libbpf:
        return Check("kernel", "libbpf", "ok", "libbpf.so.1 is installed")
    return Check("kernel", "libbpf", "degraded", "libbpf.so.1 is not installed: nothing can be loaded", "apt install libbpf1")


def _cgroup(facts: Facts) -> Check:
    if facts.cgroup is None:
        return Check("kernel", "cgroup", "unknown", "the mounts cannot be read", "mount -t proc proc /proc")
    if facts.cgroup in {"v2", "hybrid"}:
        return Check("kernel", "cgroup", "ok", facts.cgroup)
    reason = f"{facts.cgroup}: no breakdown by cgroup"
    return Check("kernel", "cgroup", "degraded", reason, "boot with systemd.unified_cgroup_hierarchy=1")
