"""A watchdog as its driver behaves towards ioctl(2), in memory: there is no /dev/watchdog on a build host."""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass, field

from agent.linux import watchdog
from agent.linux.watchdog import WDIOF_CARDRESET, WDIOF_MAGICCLOSE, WDIOF_PRETIMEOUT, WDIOF_SETTIMEOUT

OPTIONS = WDIOF_SETTIMEOUT | WDIOF_MAGICCLOSE | WDIOF_CARDRESET


def refusal(code: int) -> OSError:
    """Give an error as the kernel would."""
    return OSError(code, os.strerror(code))


@dataclass
class MemoryDevice:
    """`watchdog.Device`: takes time-outs out of `honours` only, or any up to `most_s`; `gone` fails everything."""

    options: int = OPTIONS
    identity: str = "i6300ESB timer"
    most_s: int = 2046
    honours: tuple[int, ...] = ()
    gone: bool = False
    fd: int | None = None
    timeout_s: int = 30
    pretimeout_s: int = 0
    feeds: int = 0
    closed: str = ""
    declared: int | None = None
    """What it says of its options, if that is not true."""
    asked: list[int] = field(default_factory=list)

    def support(self) -> tuple[int, str]:
        """Give options and identity."""
        return self.options if self.declared is None else self.declared, self.identity

    def control(self, request: int, value: int = 0) -> int:
        """Do what the driver would."""
        if self.gone:
            raise refusal(errno.ENODEV)
        if request == watchdog.KEEPALIVE:
            self.feeds += 1
            return 0
        if request == watchdog.SETTIMEOUT:
            return self._set_timeout(value)
        if request == watchdog.SETPRETIMEOUT:
            return self._set_pretimeout(value)
        known = {watchdog.GETTIMEOUT: self.timeout_s, watchdog.GETPRETIMEOUT: self.pretimeout_s}
        if request not in known:
            raise refusal(errno.EOPNOTSUPP)
        return known[request]

    def _set_timeout(self, value: int) -> int:
        self.asked.append(value)
        if not 0 < value <= self.most_s:
            raise refusal(errno.EINVAL)
        self.timeout_s = min(self.honours, key=lambda one: abs(one - value)) if self.honours else value
        return self.timeout_s

    def _set_pretimeout(self, value: int) -> int:
        if not self.options & WDIOF_PRETIMEOUT or value >= self.timeout_s:
            raise refusal(errno.EINVAL)
        self.pretimeout_s = value
        return value

    def readable(self) -> int | None:
        """Give the fd that the test made."""
        return self.fd

    def close(self, *, disarm: bool) -> None:
        """Remember how."""
        self.closed = "disarmed" if disarm and self.options & WDIOF_MAGICCLOSE else "counting"
