"""keeper.sock: several agents at once, lines both ways. Nobody is waited for: who takes its lines too slowly is cut off."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
from collections.abc import Callable

from agent.linux import unixserver
from agent.linux.loop import EpollLoop

CLIENTS = 8
BACKLOG_BYTES = 1 << 20  # of lines that a client has not taken; 512 kept messages are some 150 KiB
USER = "gatewarden"
REST_S = 1.0
_CHUNK = 64 * 1024


class Client:
    """One connection."""

    def __init__(self, server: KeeperServer, sock: socket.socket) -> None:
        """Begin to read."""
        self.subscribed = False
        self._server = server
        self._sock = sock
        self._in = bytearray()
        self._out = bytearray()
        server.loop.on_readable(sock.fileno(), self._receive, "keeper.sock.client")

    def send(self, line: bytes) -> None:
        """Give it a line, now or when it takes it; one that lags too far behind is cut off."""
        if self._sock.fileno() < 0:
            return
        self._out += line
        self._flush()
        if len(self._out) > BACKLOG_BYTES:
            self._server.dropped += 1
            self.close()

    def close(self) -> None:
        """Cut it off."""
        if self._sock.fileno() >= 0:
            self._server.loop.forget(self._sock.fileno())
            self._sock.close()
            self._server.clients.pop(self, None)

    def _flush(self) -> None:
        waiting = bool(self._out)
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            pass
        except OSError:
            self.close()
            return
        if waiting:
            self._server.loop.on_writable(self._sock.fileno(), self._flush if self._out else None)

    def _receive(self) -> None:
        try:
            chunk = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if not chunk:
            self.close()
            return
        self._in += chunk
        while (end := self._in.find(b"\n")) >= 0 and self._sock.fileno() >= 0:
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            self._server.handler(self, line)
        if len(self._in) > self._server.limit:
            self._server.handler(self, bytes(self._in))
            self.close()


Handler = Callable[[Client, bytes], None]


class KeeperServer:
    """Accepts on `sock` (listening, taken over); `handler(client, line)` gets each line on the loop."""

    def __init__(
        self, loop: EpollLoop, sock: socket.socket, limit: int, handler: Handler, refusal: Callable[[int], bytes]
    ) -> None:
        """Begin to accept; a line has at most `limit` bytes, a longer one is handed over as far as it came.

        `refusal(uid)` is the line for a user who may not ask.
        """
        self.loop = loop
        self.limit = limit
        self.handler = handler
        self.clients: dict[Client, None] = {}
        self.dropped = 0
        self._refusal = refusal
        self._sock = sock
        self._allowed = {0, os.geteuid(), *_uid_of(USER)}
        sock.setblocking(False)
        self._listen()

    @property
    def heard(self) -> bool:
        """Whether anybody listens."""
        return any(client.subscribed for client in self.clients)

    def tell(self, line: bytes) -> None:
        """Give `line` to all who subscribed."""
        for client in [client for client in self.clients if client.subscribed]:
            client.send(line)

    def close(self) -> None:
        """Cut off everybody."""
        for client in list(self.clients):
            client.close()
        self.loop.forget(self._sock.fileno())
        self._sock.close()

    def _listen(self) -> None:
        if self._sock.fileno() >= 0:
            self.loop.on_readable(self._sock.fileno(), self._accept, "keeper.sock")

    def _accept(self) -> None:
        try:
            sock, _address = self._sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError as error:  # no descriptor is left: trying again at once would spin
            self.loop.forget(self._sock.fileno())
            self.loop.once(REST_S, self._listen, "keeper.sock")
            self.loop.report("keeper.sock", error)
            return
        sock.setblocking(False)
        uid = unixserver.credentials(sock).uid
        if uid not in self._allowed:
            with contextlib.suppress(OSError):
                sock.send(self._refusal(uid))
            sock.close()
            return
        if len(self.clients) >= CLIENTS:  # the one that came first among those that said nothing, else the first of all
            next((client for client in self.clients if not client.subscribed), next(iter(self.clients))).close()
        self.clients[Client(self, sock)] = None


def _uid_of(user: str) -> tuple[int, ...]:
    try:
        return (pwd.getpwnam(user).pw_uid,)
    except KeyError:
        return ()
