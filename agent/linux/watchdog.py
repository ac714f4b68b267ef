"""The kernel's watchdog devices by their ioctls (Documentation/watchdog/watchdog-api.rst). Opening one arms it.

`Device` is the bare fd; `KernelWatchdog` is one that we own and feed. Closing without the letter V leaves it counting, which is
what a crash of ours does too: a new agentd then has the time-out to come back.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import select
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from agent.linux import watchdogfacts
from agent.linux.watchdogfacts import ROOT, WatchdogFacts

# include/uapi/linux/watchdog.h: _IOR('W', n, …) and _IOWR, the same on x86-64 and aarch64
GETSUPPORT = 0x80285700
KEEPALIVE, SETTIMEOUT, GETTIMEOUT = 0x80045705, 0xC0045706, 0x80045707
SETPRETIMEOUT, GETPRETIMEOUT = 0xC0045708, 0x80045709
WDIOF_CARDRESET, WDIOF_SETTIMEOUT, WDIOF_MAGICCLOSE, WDIOF_PRETIMEOUT = 0x0020, 0x0080, 0x0100, 0x0200
_FALL_BACK_S = (60, 30, 16, 15, 10)  # for drivers that refuse a time-out instead of taking the nearest; bcm2835's most is 15
SHUTDOWN_S = 180

Evidence = Literal["fd", "kmsg", "pstore", "none"]


class Device(Protocol):
    """An open watchdog. Every method raises OSError as the driver does."""

    def support(self) -> tuple[int, str]:
        """Give its WDIOF_ options and its identity."""
        ...

    def control(self, request: int, value: int = 0) -> int:
        """Make an ioctl that takes and gives one int."""
        ...

    def readable(self) -> int | None:
        """Give the fd that becomes readable at the pretimeout; None if the driver has no such thing."""
        ...

    def close(self, *, disarm: bool) -> None:
        """Close it; `disarm`: by the magic letter, which nowayout ignores."""
        ...


class FileDevice:
    """`Device` on a device file."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def support(self) -> tuple[int, str]:
        """Read struct watchdog_info: options, firmware version, identity."""
        raw = fcntl.ioctl(self._fd, GETSUPPORT, bytes(40))
        options, _version, identity = struct.unpack("=II32s", raw)
        return options, identity.split(b"\0", 1)[0].decode("utf-8", "backslashreplace").strip()

    def control(self, request: int, value: int = 0) -> int:
        """Make the ioctl."""
        return int(struct.unpack("=i", fcntl.ioctl(self._fd, request, struct.pack("=i", value)))[0])

    def readable(self) -> int | None:
        """Ask epoll, which refuses a file whose driver cannot wait."""
        with select.epoll() as probe:
            try:
                probe.register(self._fd, select.EPOLLIN)
            except PermissionError:
                return None
        return self._fd

    def close(self, *, disarm: bool) -> None:
        """Write the letter if asked to, then close."""
        with contextlib.suppress(OSError):
            if disarm:
                os.write(self._fd, b"V")
        os.close(self._fd)


@dataclass(frozen=True, slots=True)
class Closed:
    """A watchdog that we do not have. `condition` is its named state: busy, forbidden, absent or failed."""

    condition: Literal["busy", "forbidden", "absent", "failed"]
    reason: str
    remedy: str


class KernelWatchdog:
    """A watchdog of ours: `feeding.Feeder`. All times are whole seconds, as the driver gave them back."""

    def __init__(self, facts: WatchdogFacts, device: Device, evidence: Evidence, timeout_s: int, pretimeout_s: int) -> None:
        """Set it up: time-out read back, pretimeout if it has one, fed once. Raises OSError if it cannot even be fed."""
        self.name, self.facts, self.evidence = facts.name, facts, evidence
        self.options, self.identity = device.support()
        if self.identity == "IPMI":  # ipmi_watchdog declares no option, and has these (drivers/char/ipmi/ipmi_watchdog.c)
            self.options |= WDIOF_SETTIMEOUT | WDIOF_PRETIMEOUT | WDIOF_MAGICCLOSE
        self._device = device
        device.control(KEEPALIVE)
        self.ttl_s = float(self._set_timeout(timeout_s))
        self.pretimeout_s = self._set_pretimeout(pretimeout_s)
        if not self.pretimeout_s:
            self.evidence = "none"

    @property
    def tells(self) -> bool:
        """Whether it says after a reset that it was the one."""
        return bool(self.options & WDIOF_CARDRESET)

    @property
    def pretimeout_fd(self) -> int | None:
        """The fd that tells of the pretimeout, if its evidence is kept that way."""
        return self._device.readable() if self.evidence == "fd" else None

    def drain(self, fd: int) -> None:
        """Take what the pretimeout made readable, so that it tells once."""
        os.read(fd, 1)

    def feed(self) -> None:
        """Start its count anew. Raises OSError."""
        self._device.control(KEEPALIVE)

    def close(self, *, shutdown: bool = False) -> str:
        """End the guard, and say how: disarmed, or still counting: by nowayout, or to cover a `shutdown` that may hang."""
        if shutdown:
            self._set_timeout(max(SHUTDOWN_S, int(self.ttl_s)))
        with contextlib.suppress(OSError):
            self.feed()
        self._device.close(disarm=not shutdown)
        if shutdown:
            return f"left counting for {self.ttl_s:g} s to cover the shutdown"
        magic = self.options & WDIOF_MAGICCLOSE and not self.facts.nowayout
        return "disarmed" if magic else f"cannot be disarmed: it resets the machine in {self.ttl_s:g} s unless it is fed again"

    def _set_timeout(self, wanted: int) -> int:
        """Ask for it, and for less where that is refused; give what is in force."""
        limit = self.facts.max_s or wanted
        wishes = [min(wanted, limit), *(one for one in _FALL_BACK_S if one < min(wanted, limit))]
        given = 0
        for wish in wishes if self.options & WDIOF_SETTIMEOUT else ():
            with contextlib.suppress(OSError):
                given = self._device.control(SETTIMEOUT, wish)
                break
        with contextlib.suppress(OSError):
            given = self._device.control(GETTIMEOUT) or given
        self.ttl_s = float(given or self.facts.timeout_s or wanted)
        return int(self.ttl_s)

    def _set_pretimeout(self, wanted: int) -> int:
        """Ask for it, at most half of the time-out; give what is in force, 0 for none."""
        if not self.options & WDIOF_PRETIMEOUT or not wanted:
            return 0
        with contextlib.suppress(OSError):
            self._device.control(SETPRETIMEOUT, min(wanted, int(self.ttl_s) // 2))
        with contextlib.suppress(OSError):
            return self._device.control(GETPRETIMEOUT)
        return 0


def evidence_of(facts: WatchdogFacts, *, ipmi_readable: bool, pstore: bool) -> Evidence:
    """Give how a pretimeout of this watchdog is kept: by a readable fd, by a line in the kernel's log, by pstore, or not."""
    if facts.identity == "IPMI":
        return "fd" if ipmi_readable else "none"
    if facts.governor == "noop":
        return "kmsg"
    return "pstore" if facts.governor == "panic" and pstore else "none"


def open_fd(path: str) -> int:
    """Open the device file; from then on it counts. Raises OSError."""
    return os.open(path, os.O_RDWR | os.O_CLOEXEC)


def acquire(
    facts: WatchdogFacts,
    timeout_s: int,
    pretimeout_s: int,
    *,
    pstore: bool,
    opener: Callable[[str], int] = open_fd,
    root: Path = ROOT,
) -> KernelWatchdog | Closed:
    """Open `facts.path` and set it up, or say why it cannot be had."""
    try:
        device = FileDevice(opener(facts.path))
    except OSError as error:
        return refused(facts, error, root)
    evidence = evidence_of(facts, ipmi_readable=watchdogfacts.ipmi_readable(root), pstore=pstore)
    try:
        return KernelWatchdog(facts, device, evidence, timeout_s, pretimeout_s)
    except OSError as error:
        device.close(disarm=True)
        return Closed("failed", f"{facts.path}: {error.strerror}", f"dmesg | grep -i {facts.name}")


def refused(facts: WatchdogFacts, error: OSError, root: Path = ROOT) -> Closed:
    """Give the named state of a device that would not open."""
    if error.errno == errno.EBUSY:
        who = watchdogfacts.holder(facts.path, root)
        remedy = 'one owner only: end that one, or set [watchdog] mode = "delegated"'
        return Closed("busy", f"{facts.path} is already open: {who}", remedy)
    if error.errno in {errno.EACCES, errno.EPERM}:
        remedy = "systemctl enable --now gatewarden-broker.socket: the broker opens it for user gatewarden"
        return Closed("forbidden", f"{facts.path}: {error.strerror}", remedy)
    if error.errno in {errno.ENOENT, errno.ENODEV, errno.ENXIO}:
        return Closed("absent", f"{facts.path}: {error.strerror}", "load its driver (modprobe)")
    return Closed("failed", f"{facts.path}: {error.strerror}", f"dmesg | grep -i {facts.name}")
