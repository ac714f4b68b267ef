"""The serving side of a stream socket on the loop: one request, one reply, closed. Bounded in clients, bytes and time.

What a bad client costs: a request has `deadline_s` to arrive whole, its reply has `deadline_s` to be taken, whatever it is
doing meanwhile; more than `limit` bytes end in one refusal; when all places are taken, the client that has dawdled longest over
its request, or over taking its reply, makes room. Others are served all the while.
"""

from __future__ import annotations

import errno
import os
import socket
from typing import NamedTuple, Protocol

from agent.errors import BadRequest, GatewardenError
from agent.linux.loop import EpollLoop

CLIENTS = 16
DEADLINE_S = 5.0
ACCEPTS = 16  # in one go, so that a flood of connections does not keep the loop
REST_S = 1.0  # without a descriptor to accept with, trying again at once would spin
_CHUNK = 16 * 1024


class Reply(NamedTuple):
    """What to send; `fd` goes along by SCM_RIGHTS (unix sockets) and is closed here afterwards."""

    data: bytes
    fd: int | None = None


class Service(Protocol):
    """What is served: where a request ends, how long it may be, what answers it."""

    @property
    def terminator(self) -> bytes:
        """The bytes that end a request."""
        ...

    @property
    def limit(self) -> int:
        """Most bytes of a request, the terminator included."""
        ...

    def handle(self, request: bytes, sock: socket.socket) -> Reply:
        """Answer one request (without its terminator) from the peer on `sock`, without blocking."""
        ...

    def refuse(self, error: GatewardenError) -> bytes:
        """Give the reply to what is no request (BadRequest), or when a handler failed (any other)."""
        ...


class Listener:
    """Accepts on `sock` (listening, taken over) and runs one exchange per client."""

    def __init__(
        self,
        loop: EpollLoop,
        sock: socket.socket,
        service: Service,
        name: str,
        clients: int = CLIENTS,
        deadline_s: float = DEADLINE_S,
    ) -> None:
        self.loop = loop
        self.service = service
        self.name = name
        self.deadline_s = deadline_s
        self.served = 0
        self.cut_off = 0
        self._clients = clients
        self._sock = sock
        self._exchanges: dict[_Exchange, None] = {}  # first the one whose request, or reply, was begun first
        sock.setblocking(False)
        self._listen()

    @property
    def busy(self) -> bool:
        """Whether a client is being served."""
        return bool(self._exchanges)

    def close(self) -> None:
        """Cut off every client and stop listening."""
        for exchange in list(self._exchanges):
            exchange.close()
        self.loop.forget(self._sock.fileno())
        self._sock.close()

    def begins_anew(self, exchange: _Exchange) -> None:
        """Note that `exchange` has begun its reply: only from now on does it dawdle over that."""
        self._exchanges[exchange] = self._exchanges.pop(exchange)

    def drop(self, exchange: _Exchange) -> None:
        """Take a finished exchange off the list."""
        self._exchanges.pop(exchange, None)

    def _listen(self) -> None:
        if self._sock.fileno() >= 0:
            self.loop.on_readable(self._sock.fileno(), self._accept, self.name)

    def _accept(self) -> None:
        for _ in range(ACCEPTS):
            try:
                sock, _address = self._sock.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self.loop.forget(self._sock.fileno())
                self.loop.once(REST_S, self._listen, self.name)
                self.loop.report(self.name, error)
                return
            sock.setblocking(False)
            self._admit(sock)

    def _admit(self, sock: socket.socket) -> None:
        if len(self._exchanges) >= self._clients:
            self.cut_off += 1
            next(iter(self._exchanges)).close()
        exchange = _Exchange(self, sock)
        self._exchanges[exchange] = None
        exchange.receive()  # most often the request is there already: no epoll round, no timer


class _Exchange:
    """One client: its request so far, then what is left of its reply."""

    __slots__ = ("_closed", "_fd", "_listener", "_out", "_request", "_sock", "_timer", "_waiting")

    def __init__(self, listener: Listener, sock: socket.socket) -> None:
        self._waiting = True
        self._listener = listener
        self._sock = sock
        self._request = bytearray()
        self._out = memoryview(b"")
        self._fd: int | None = None
        self._closed = False
        name = f"{listener.name}.client"
        listener.loop.on_readable(sock.fileno(), self.receive, name)
        self._timer = listener.loop.once(listener.deadline_s, self._late, name)

    def receive(self) -> None:
        """Take what has come; answer once the request is whole, or cannot become one."""
        service = self._listener.service
        try:
            chunk = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self.close()
            return
        before = len(self._request)
        self._request += chunk
        end = self._request.find(service.terminator, max(0, before - len(service.terminator) + 1), service.limit)
        if end >= 0:
            self._answer(self._handled(bytes(self._request[:end])))
        elif not chunk:
            self.cut("ended before the request was complete")
        elif len(self._request) >= service.limit:
            self.cut(f"a request of more than {service.limit} bytes")

    def cut(self, why: str) -> None:
        """Say `why` as far as the peer takes it at once, and close."""
        self._listener.cut_off += 1
        if self._request:
            self._out = memoryview(self._listener.service.refuse(BadRequest(why)))
            self._send()
        self.close()

    def close(self) -> None:
        """End it, whatever is left undone."""
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        self._listener.loop.forget(self._sock.fileno())
        self._sock.close()
        if self._fd is not None:
            os.close(self._fd)
        self._listener.drop(self)

    def _late(self) -> None:
        if self._waiting:
            self.cut(f"no whole request within {self._listener.deadline_s:g} s")
        else:
            self._listener.cut_off += 1
            self.close()

    def _handled(self, request: bytes) -> Reply:
        self._listener.served += 1
        try:
            return self._listener.service.handle(request, self._sock)
        except Exception as error:  # noqa: BLE001 - a handler's fault is told on both sides and ends no one else
            self._listener.loop.report(self._listener.name, error)
            return Reply(self._listener.service.refuse(GatewardenError(f"internal error: {type(error).__name__}")))

    def _answer(self, reply: Reply) -> None:
        self._waiting = False
        self._request.clear()
        self._out = memoryview(reply.data)
        self._fd = reply.fd
        self._send()
        if self._closed:
            return
        self._listener.begins_anew(self)
        loop, fd = self._listener.loop, self._sock.fileno()
        self._timer.cancel()
        self._timer = loop.once(self._listener.deadline_s, self._late, f"{self._listener.name}.client")
        loop.on_readable(fd, None, f"{self._listener.name}.client")  # what it still sends is nobody's business
        loop.on_writable(fd, self._send)

    def _send(self) -> None:
        try:
            while self._out:
                sent = self._send_some()
                self._out = self._out[sent:]
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno not in {errno.EPIPE, errno.ECONNRESET}:
                self._listener.loop.report(self._listener.name, error)
        self.close()

    def _send_some(self) -> int:
        if self._fd is None:
            return self._sock.send(self._out)
        sent = socket.send_fds(self._sock, [self._out], [self._fd])
        os.close(self._fd)
        self._fd = None
        return sent
