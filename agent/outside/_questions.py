"""From a `probe =` of the configuration to whom is asked, and what."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

from agent.config import HealthProbe
from agent.linux.dialogue import Answer, Conversation
from agent.outside._grpc import Check
from agent.outside._http import Get
from agent.outside._tls import Tls

_PORTS = {"http": 80, "https": 443}


class Connected:
    """`dialogue.Conversation` that is over once the connection stands."""

    def begin(self) -> Answer:
        """Be content."""
        return Answer(ok=True)

    def take(self, data: bytes) -> Answer | None:  # noqa: ARG002 - of the protocol
        """Be content."""
        return Answer(ok=True)

    def more(self) -> bytes:
        """Say nothing."""
        return b""


@dataclass(frozen=True, slots=True)
class Question:
    """Whom to ask."""

    host: str
    port: int
    probe: HealthProbe

    def conversation(self) -> Conversation:
        """Give a new one."""
        if self.probe.grpc is not None:
            return Check(self.probe.grpc)
        if self.probe.http is None:
            return Connected()
        url = urlsplit(self.probe.http)
        target = (url.path or "/") + (f"?{url.query}" if url.query else "")
        get = Get(url.netloc.rpartition("@")[2], target, self.probe.counter)
        return Tls(get, self.host) if url.scheme == "https" else get


def question(probe: HealthProbe) -> Question | None:
    """Read a probe; None for a file, which is not asked but read."""
    if probe.http is not None:
        url = urlsplit(probe.http)
        return Question(url.hostname or "", url.port or _PORTS[url.scheme], probe)
    address = probe.tcp or probe.grpc
    if address is None:
        return None
    host, _, port = address.rpartition(":")
    return Question(host.strip("[]"), int(port), probe)
