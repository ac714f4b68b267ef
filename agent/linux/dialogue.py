"""One question to one server over TCP, on the loop: what is said is a `Conversation`, which knows no socket.

A server costs at most its time-out and `LIMIT` bytes, whatever it does: none is waited for, and none delays another.
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.linux.loop import EpollLoop
from agent.ports import Clock

LIMIT = 1 << 20
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of it; `why` says what was wrong. `count` is the work done that the server tells of."""

    ok: bool
    why: str = ""
    count: float | None = None


class Conversation(Protocol):
    """Bytes in, bytes out, and an answer in the end."""

    def begin(self) -> bytes | Answer:
        """Give the first bytes to send; an answer if being connected is all that was wanted."""
        ...

    def take(self, data: bytes) -> Answer | None:
        """Take what came (nothing: the server has closed); give the answer once it is known."""
        ...

    def more(self) -> bytes:
        """Give what is to be sent next."""
        ...


class Dialogue:
    """Belongs to the loop's thread. `done(answer)` is called once, from the loop, unless `close` comes first."""

    def __init__(
        self,
        loop: EpollLoop,
        clock: Clock,
        addresses: Sequence[tuple[str, int]],
        conversation: Conversation,
        timeout_s: float,
        done: Callable[[Answer, float], None],
    ) -> None:
        """Begin. `addresses` are tried in turn; `done` hears the answer and its ms. Raises OSError without a socket."""
        self._loop, self._clock, self._done = loop, clock, done
        self._left = list(addresses)
        self._conversation = conversation
        self._begun_ns, self._timeout_s = clock.mono_ns(), timeout_s
        self._out = b""
        self._heard = 0
        self._connected = False
        self._over_already = False
        self._sock: socket.socket | None = None
        self._timer = loop.once(timeout_s, self._late, "health check")
        try:
            self._connect()
        except OSError:
            self._timer.cancel()
            raise

    def hurry(self) -> None:
        """Go on at once: to a server on this machine the connection stands already, which saves a wake-up."""
        if self._sock is not None:
            self._ready()

    def close(self) -> None:
        """Hang up; `done` is not called any more."""
        self._over_already = True
        self._timer.cancel()
        self._hang_up()

    def _connect(self) -> None:
        host, port = self._left.pop(0)
        sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        self._sock = sock
        code = sock.connect_ex((host, port))
        if code not in (0, errno.EINPROGRESS):
            self._loop.once(0, lambda: self._refused(sock, code), "health check")
            return
        self._loop.on_readable(sock.fileno(), self._ready, "health check")
        self._loop.on_writable(sock.fileno(), self._ready)

    def _ready(self) -> None:
        """Go on as far as it goes without waiting."""
        sock = self._sock
        assert sock is not None
        if not self._connected:
            code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code or not self._is_connected(sock):
                if code:
                    self._refused(sock, code)
                return
            self._connected = True
            first = self._conversation.begin()
            if isinstance(first, Answer):
                self._over(first)
                return
            self._out = first
        self._exchange(sock)

    @staticmethod
    def _is_connected(sock: socket.socket) -> bool:
        try:
            sock.getpeername()
        except OSError:
            return False
        return True

    def _refused(self, sock: socket.socket, code: int) -> None:
        if sock is not self._sock:
            return  # it was closed meanwhile
        self._hang_up()
        if self._left:
            self._connect()  # without a socket for it the time-out ends this
        else:
            self._over(Answer(ok=False, why=f"cannot connect: {os.strerror(code)}"))

    def _exchange(self, sock: socket.socket) -> None:
        try:
            if self._out:
                self._out = self._out[sock.send(self._out) :]
            answer = self._read(sock)
        except OSError as error:
            answer = Answer(ok=False, why=f"the connection broke: {error.strerror or error}")
        if answer is not None:
            self._over(answer)
            return
        self._out += self._conversation.more()
        self._loop.on_writable(sock.fileno(), self._ready if self._out else None)

    def _read(self, sock: socket.socket) -> Answer | None:
        try:
            data = sock.recv(_CHUNK)
        except BlockingIOError:
            return None
        self._heard += len(data)
        answer = self._conversation.take(data)
        if answer is None and self._heard > LIMIT:
            return Answer(ok=False, why=f"answers more than {LIMIT >> 20} MiB")
        if answer is None and not data:
            return Answer(ok=False, why=f"closed the connection after {self._heard} bytes, before its answer was whole")
        return answer

    def _late(self) -> None:
        """Look at what came while we ourselves were late, then give up."""
        if self._sock is not None:
            self._ready()
        if self._over_already:
            return
        what = (
            "no connection" if not self._connected else f"no whole answer ({self._heard} bytes)" if self._heard else "no answer"
        )
        self._over(Answer(ok=False, why=f"{what} within {self._timeout_s:g} s"))

    def _over(self, answer: Answer) -> None:
        self._over_already = True
        self.close()
        self._done(answer, round((self._clock.mono_ns() - self._begun_ns) / 1e6, 1))

    def _hang_up(self) -> None:
        sock, self._sock = self._sock, None
        if sock is not None:
            self._loop.forget(sock.fileno())
            sock.close()
