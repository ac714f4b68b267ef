"""The sd_notify(3) protocol, our side of it."""

from __future__ import annotations

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Tell systemd (sd_notify(3)), if it started us with Type=notify."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end, contextlib.suppress(OSError):
        end.sendto(state.encode(), "\0" + address[1:] if address.startswith("@") else address)


def watchdog_s() -> float | None:
    """Give the seconds within which systemd wants WATCHDOG=1 (WatchdogSec=, sd_watchdog_enabled(3)); None if it does not."""
    ours = os.environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
    usec = os.environ.get("WATCHDOG_USEC", "")
    return int(usec) / 1e6 if ours and usec.isdecimal() and int(usec) else None


def supervised() -> bool:
    """Whether we are a service of systemd's that it hears (systemd.exec(5), INVOCATION_ID): it will bring us back if we die."""
    return bool(os.environ.get("NOTIFY_SOCKET") and os.environ.get("INVOCATION_ID"))
