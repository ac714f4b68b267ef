"""Names to addresses without waiting: getaddrinfo(3) may hang for half a minute, so it does that on a thread of its own."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from threading import Thread

from agent.ports import Clock

KEPT_S = 60.0
_NS = 1_000_000_000


class Resolver:
    """Remembers what it was told; an address is used until there is a newer one."""

    def __init__(self, clock: Clock) -> None:
        """Know no name."""
        self._clock = clock
        self._known: dict[str, tuple[str, ...]] = {}
        self._asked_ns: dict[str, int] = {}
        self._asking: set[str] = set()

    def addresses(self, host: str) -> Sequence[str]:
        """Give the addresses of `host`, none if they are not known (yet)."""
        if _numeric(host):
            return (host,)
        now = self._clock.mono_ns()
        stale = host not in self._asked_ns or now - self._asked_ns[host] > KEPT_S * _NS
        if stale and host not in self._asking:
            self._asked_ns[host] = now
            self._asking.add(host)
            Thread(target=self._ask, args=(host,), name="resolver", daemon=True).start()
        return self._known.get(host, ())

    def _ask(self, host: str) -> None:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            found = []
        if found:
            self._known[host] = tuple(dict.fromkeys(str(row[4][0]) for row in found))
        elif host not in self._known:
            self._asked_ns.pop(host, None)  # ask again at the next look
        self._asking.discard(host)


def _numeric(host: str) -> bool:
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except (OSError, ValueError):
            continue
        return True
    return False
