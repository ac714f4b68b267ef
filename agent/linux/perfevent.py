"""perf_event_open(2) for one purpose: write watchpoints on kernel addresses, one per CPU, with a BPF program on each.

A watchpoint lives as long as its fd: when the process that holds it ends, in whatever way, the kernel disarms it.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import struct
from pathlib import Path

from agent.errors import NotPermitted, ProbeError, Unsupported
from agent.linux.facts import parse_lockdown

MACHINE = "x86_64"
_SYS_PERF_EVENT_OPEN = 298
# Numbers of include/uapi/linux/perf_event.h and hw_breakpoint.h.
_TYPE_BREAKPOINT, _BP_W = 5, 2
_DISABLED, _PINNED = 1 << 0, 1 << 2
_FLAG_CLOEXEC = 8
_ATTR_BYTES = 112
_IOC_DISABLE, _IOC_REFRESH, _IOC_SET_BPF = 0x2401, 0x2402, 0x40042408
_libc = ctypes.CDLL(None, use_errno=True)


def require_machine(machine: str = "") -> None:
    """Raise Unsupported anywhere but on x86-64.

    arm64 traps before the write, and steps over it only for perf's own handler: with a BPF program on it the CPU would trap on
    the same instruction for ever (arch/arm64/kernel/hw_breakpoint.c, watchpoint_handler).
    """
    name = machine or platform.machine()
    if name != MACHINE:
        raise Unsupported(f"a watchpoint with a program on it works on {MACHINE} only, this is {name}", "agentctl race scan")


def open_watchpoint(address: int, length: int, cpu: int, program: int) -> int:
    """Give the fd of a disarmed watchpoint on `length` (1, 2, 4, 8) bytes. Raises a ProbeError that names the cause."""
    attr = struct.pack(
        "=IIQQQQQIIQQ", _TYPE_BREAKPOINT, _ATTR_BYTES, 0, 1, 0, 0, _DISABLED | _PINNED, 0, _BP_W, address, length
    )
    block = ctypes.create_string_buffer(attr, _ATTR_BYTES)
    fd = int(_libc.syscall(_SYS_PERF_EVENT_OPEN, block, -1, cpu, -1, _FLAG_CLOEXEC))
    if fd < 0:
        raise refusal(ctypes.get_errno(), address, _lockdown())
    try:
        fcntl.ioctl(fd, _IOC_SET_BPF, program)
    except OSError as error:
        os.close(fd)
        raise Unsupported(f"no program can be put on a watchpoint here: {error.strerror}", "agentctl race scan") from error
    return fd


def arm(fd: int, limit: int) -> None:
    """Let it trap for at most `limit` writes on its CPU; the kernel disarms it then by itself. Raises Unsupported."""
    fcntl.ioctl(fd, _IOC_REFRESH, limit)
    if count(fd) is None:
        raise Unsupported("no debug register is free on a CPU", "end the debugger or the perf session that holds them")


def disarm(fd: int) -> None:
    """Stop trapping."""
    fcntl.ioctl(fd, _IOC_DISABLE)


def count(fd: int) -> int | None:
    """Give how often it trapped, whether its program ran or not; None if it could not be put on its CPU."""
    raw = os.read(fd, 8)
    return int(struct.unpack("=Q", raw)[0]) if len(raw) == 8 else None


def online_cpus(root: Path = Path("/")) -> tuple[int, ...]:
    """Give the CPUs that run."""
    return parse_cpus((root / "sys/devices/system/cpu/online").read_text())


def parse_cpus(text: str) -> tuple[int, ...]:
    """Read a list like `0-3,5`."""
    spans = [part.split("-") for part in text.strip().split(",") if part]
    return tuple(cpu for span in spans for cpu in range(int(span[0]), int(span[-1]) + 1))


def refusal(code: int, address: int, lockdown: str) -> ProbeError:
    """Say why the kernel refused a watchpoint on a kernel address."""
    what = f"watchpoint on {address:#x}"
    if code == errno.ENOSPC:
        return Unsupported(f"{what}: no debug register is free", "end the debugger or the perf session that holds them")
    if code in {errno.ENOENT, errno.ENODEV, errno.ENOSYS, errno.EOPNOTSUPP}:
        return Unsupported(
            f"{what}: the kernel has no hw_breakpoint", "a kernel with CONFIG_HAVE_HW_BREAKPOINT and CONFIG_PERF_EVENTS"
        )
    if code in {errno.EPERM, errno.EACCES} and lockdown == "confidentiality":
        return NotPermitted(f"{what}: the kernel is locked down to confidentiality", "boot with lockdown=integrity or none")
    if code in {errno.EPERM, errno.EACCES}:
        return NotPermitted(f"{what}: needs CAP_SYS_ADMIN", "run as root, or ask as user gatewarden through the broker")
    if code == errno.EINVAL:
        return Unsupported(f"{what}: the kernel watches no such address", "name data that is aligned to its length")
    return Unsupported(f"{what}: {os.strerror(code)}", "report this kernel")


def _lockdown(root: Path = Path("/")) -> str:
    try:
        text = (root / "sys/kernel/security/lockdown").read_text()
    except OSError:
        return ""
    return parse_lockdown(text, None) or ""
