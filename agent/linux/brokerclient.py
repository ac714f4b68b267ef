"""What an unprivileged agent asks of `agent.broker`: one method per verb."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from agent.errors import NotRunning
from agent.linux import errands
from agent.linux.pstore import Record
from agent.linux.servicestate import ServiceState, from_text
from agent.linux.unix import ask, ask_fd, ask_maybe_fd
from agent.model import Data

ADDRESSES = 256  # of one `ksym` request
REASON = 200  # characters of a reboot's
ERRAND_S = 110.0  # a little more than what the broker gives a unit


class BrokerClient:
    """Asks on `path`; every call takes at most `timeout_s` and raises NotRunning, Refused or BadRequest.

    What services and ports are told to do takes as long as they take, at most `ERRAND_S`.
    """

    def __init__(self, path: Path, timeout_s: float = 5.0) -> None:
        self._path = path
        self._timeout_s = timeout_s

    def kmsg_fd(self) -> int:
        """Give /dev/kmsg, open for reading without blocking, at the oldest record; the caller closes it."""
        return ask_fd(self._path, {"verb": "kmsg.open"}, self._timeout_s)[1]

    def symbols(self, addresses: Sequence[int]) -> dict[int, str]:
        """Give `name+offset [module]` of kernel addresses; those without a name are left out."""
        names: dict[int, str] = {}
        wanted = sorted(set(addresses))
        for at in range(0, len(wanted), ADDRESSES):
            part = wanted[at : at + ADDRESSES]
            answer = ask(self._path, {"verb": "ksym", "addresses": list(part)}, self._timeout_s)
            if isinstance(answer, list):
                names |= {address: name for address, name in zip(part, answer, strict=False) if isinstance(name, str)}
        return names

    def watchdog_fd(self, path: str) -> int:
        """Give the watchdog `/dev/NAME`, open: it counts from now on. Raises OSError as open(2) does, besides."""
        request: Data = {"verb": "watchdog.open", "device": path.removeprefix("/dev/")}
        answer, fd = ask_maybe_fd(self._path, request, self._timeout_s)
        if fd is None:
            code = answer.get("errno") if isinstance(answer, dict) else None
            code = code if isinstance(code, int) else errno.EIO
            raise OSError(code, os.strerror(code), path)
        return fd

    def pstore(self) -> list[Record]:
        """Give what the kernel kept over a reset."""
        answer = ask(self._path, {"verb": "pstore.read"}, self._timeout_s)
        rows = answer if isinstance(answer, list) else []
        return [Record(*map(str, row)) for row in rows if isinstance(row, list) and len(row) == 3]

    def watchpoint(self, what: str, target: str, seconds: float) -> int:
        """Have root run `agentctl race prove TARGET` (or hunt, in module TARGET); give the pipe that its JSON comes out of.

        The caller reads to the end, which comes some seconds after `seconds`, and closes it. Text that is no JSON is an error.
        """
        request: Data = {"verb": "watchpoint", "what": what, "target": target, "seconds": seconds}
        return ask_fd(self._path, request, self._timeout_s)[1]

    def unit(self, verb: str, name: str) -> str:
        """Have systemd start, stop or restart a unit that the configuration names, and wait for it; give what was done."""
        return self._errand({"verb": "unit", "action": verb, "name": name})

    def unit_state(self, name: str) -> ServiceState:
        """Ask how a unit is that the configuration names."""
        return self._state({"verb": "unit", "action": "state", "name": name})

    def container_restart(self, name: str) -> str:
        """Have a container that the configuration names restarted, and wait for it; give what was done."""
        return self._errand({"verb": "container", "action": "restart", "name": name})

    def container_state(self, name: str) -> ServiceState:
        """Ask how a container is that the configuration names."""
        return self._state({"verb": "container", "action": "state", "name": name})

    def usb_reset(self, port: str) -> str:
        """Reset the device at a USB port that the configuration names, or switch the port if there is none."""
        return self._errand({"verb": "usb.reset", "port": port})

    def reboot(self, reason: str) -> str:
        """Begin an orderly reboot; a broker that ends without a word is one that the reboot has ended."""
        request: Data = {"verb": "reboot", "reason": reason[:REASON] or "no reason told"}
        fd = ask_fd(self._path, request, self._timeout_s)[1]
        try:
            return errands.result(fd, ERRAND_S)
        except NotRunning as error:
            return f"begun; {error}"

    def _state(self, request: Data) -> ServiceState:
        return from_text(errands.result(ask_fd(self._path, request, self._timeout_s)[1], self._timeout_s))

    def _errand(self, request: Data) -> str:
        return errands.result(ask_fd(self._path, request, self._timeout_s)[1], ERRAND_S)
