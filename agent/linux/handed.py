"""What this process may open itself, or else has the broker open: a watchdog, the kernel's log, what pstore kept.

An installed agentd is an ordinary user whose /dev holds no such device (PrivateDevices=), so it is always the broker there.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import ModuleType
from typing import TypeVar

from agent.errors import GatewardenError
from agent.linux import kmsg, pstore, units, usb, watchdog
from agent.linux.brokerclient import BrokerClient
from agent.linux.pstore import Record
from agent.linux.servicestate import ServiceState

_Given = TypeVar("_Given")


def _either(own: Callable[[], _Given], theirs: Callable[[], _Given]) -> _Given:
    """Give what the first gives; if it is absent or forbidden here what the second gives, else the first one's error."""
    try:
        return own()
    except (PermissionError, FileNotFoundError) as error:
        try:
            return theirs()
        except GatewardenError:
            raise error from None


def watchdog_fd(broker: BrokerClient, path: str) -> int:
    """Open a watchdog, which arms it. Raises OSError as open(2) does."""
    return _either(lambda: watchdog.open_fd(path), lambda: broker.watchdog_fd(path))


def kmsg_fd(broker: BrokerClient) -> int:
    """Open the kernel's log. Raises OSError."""
    return _either(kmsg.open_kmsg, broker.kmsg_fd)


def service_state(broker: BrokerClient, unit: str | None, container: str | None) -> ServiceState:
    """Ask how a unit is, or a container. Raises GatewardenError."""
    root = os.geteuid() == 0
    if unit is not None:
        return units.read(unit) if root else broker.unit_state(unit)
    return _containers().read(container or "") if root else broker.container_state(container or "")


def _containers() -> ModuleType:
    """Import what an agentd that is no root does without: 1.3 MiB of http.client."""
    from agent.linux import containers  # noqa: PLC0415

    return containers


class Hands(BrokerClient):
    """The broker for an agentd that is no root; root in the foreground does it itself, all but the reboot.

    The broker serves user gatewarden alone, and whoever runs agentd by hand as root does not want that machine rebooted.
    """

    def unit(self, verb: str, name: str) -> str:
        """Have systemd start, stop or restart a unit."""
        return units.order(verb, name) if os.geteuid() == 0 else super().unit(verb, name)

    def container_restart(self, name: str) -> str:
        """Have a container restarted."""
        return str(_containers().restart(name)) if os.geteuid() == 0 else super().container_restart(name)

    def usb_reset(self, port: str) -> str:
        """Reset a USB port. Raises OSError, too, as root."""
        return usb.reset(port) if os.geteuid() == 0 else super().usb_reset(port)


def dumps(broker: BrokerClient) -> list[Record]:
    """Read what the kernel kept over a reset. Raises OSError."""
    return _either(pstore.read, broker.pstore)
