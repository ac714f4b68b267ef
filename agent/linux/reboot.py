"""An orderly reboot, and what is left if nobody does one: reboot(2) after the file systems are written, in bounded time."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from threading import Thread

from agent.errors import GatewardenError, Refused
from agent.linux import tool

_ORDER_S, _SYNC_S = 10.0, 10.0
_ORDERLY = (["systemctl", "--no-block", "reboot"], ["reboot"])  # the second: sysvinit, busybox
_AUTOBOOT = 0x01234567  # RB_AUTOBOOT, reboot(2)


def begin(reason: str, path: str = tool.PATH, cut: Callable[[], str] | None = None) -> str:
    """Begin the reboot; gives what was begun. Raises Refused if the kernel refuses even the last way."""
    said = []
    for words in _ORDERLY:
        if tool.find(words[0], path) is None:
            continue
        try:
            tool.run(words, _ORDER_S, path)
        except GatewardenError as error:
            said.append(str(error))
        else:
            return f"{' '.join(words)}: {reason}"
    return f"{'; '.join(said) or 'nobody reboots in good order here'}: {(cut or _cut)()}"


def _cut() -> str:
    writing = Thread(target=os.sync, daemon=True)
    writing.start()
    writing.join(_SYNC_S)  # a disk that hangs is a reason to reboot, none to wait for ever
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.reboot(_AUTOBOOT):
        raise Refused(f"reboot(2): {os.strerror(ctypes.get_errno())}")
    return "reboot(2)"
