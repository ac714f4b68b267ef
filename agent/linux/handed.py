"""What this process may open itself, or else has the broker open: a watchdog, the kernel's log, what pstore kept.

An installed agentd is an ordinary user whose /dev holds no such device (PrivateDevices=), so it is always the broker there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from agent.errors import GatewardenError
from agent.linux import kmsg, pstore, watchdog
from agent.linux.brokerclient import BrokerClient
from agent.linux.pstore import Record

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


def dumps(broker: BrokerClient) -> list[Record]:
    """Read what the kernel kept over a reset. Raises OSError."""
    return _either(pstore.read, broker.pstore)
