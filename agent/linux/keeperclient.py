"""agentd's end of the keeper's socket: JSON lines both ways, over one connection that is made anew whenever it breaks.

Which keeper answers, and so which of its numbered messages we have, is known only from its hello, the answer to a subscription:
hence we subscribe twice, and numbered messages count from the second hello on. Nothing here judges a message: `heard(message)`
gets every object that came, on the loop.
"""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Event as Signal
from threading import Lock

from agent.errors import BadRequest, NotRunning
from agent.linux import wire
from agent.linux.loop import EpollLoop
from agent.model import Data
from agent.ports import Done

LINE = 64 * 1024
ORDER_S = 75.0  # a workload that asks for patience gets a minute to stop, and 5 s more show that it cannot be killed
SOONEST_S, LATEST_S = 0.25, 5.0  # between two attempts to connect
ANSWER_NS = 10_000_000_000  # a keeper that does not answer for so long is as good as none
_UNSENT = 256 * 1024
_CHUNK = 64 * 1024


class KeeperClient:
    """`ports.Keeper`; all but `order` belongs to the loop's thread.

    `since(keeper)` gives the last message number that is durable here, of the keeper with that id; `greeting()` gives what
    the keeper must know on every connection; `changed(why)` is told when the link comes up ("") or breaks.
    """

    def __init__(
        self,
        loop: EpollLoop,
        path: Path,
        heard: Callable[[Data], None],
        since: Callable[[str], int],
        greeting: Callable[[], Iterable[Data]],
        changed: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._path = path
        self._heard = heard
        self._since = since
        self._greeting = greeting
        self._changed = changed
        self._sock: socket.socket | None = None
        self._keeper = ""
        self._greeted = False
        self._in = bytearray()
        self._out = bytearray()
        self._pause_s = SOONEST_S
        self._closed = False
        self._ids = itertools.count(1)
        self._ping: tuple[str, int] | None = None
        self._lock = Lock()
        self._orders: dict[str, _Order] = {}
        self.why = ""
        """Why there is no keeper to talk to; empty while there is one, and before the first attempt."""

    @property
    def connected(self) -> bool:
        """Whether the keeper goes on behind what we have."""
        return self._greeted

    def start(self) -> None:
        """Connect now, and again and again until it works."""
        if self._closed or self._sock is not None:
            return
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            sock.connect(str(self._path))
        except OSError as error:
            sock.close()
            self._later(f"{self._path}: {error.strerror or error}")
            return
        self._sock = sock
        self.why = f"{self._path}: connected, and no answer yet"
        self._loop.on_readable(sock.fileno(), self._read, "keeper")
        self._send({"type": "subscribe", "keeper": None, "since": 0})

    def order(self, verb: str, name: str, reason: str, profile: str | None = None) -> Done:
        """Give an order and wait until the keeper says what became of it. From any thread but the loop's. Raises NotRunning."""
        order = _Order()
        with self._lock:
            number = str(next(self._ids))
            self._orders[number] = order
        message: Data = {"type": "order", "id": number, "verb": verb, "name": name, "reason": reason}
        if profile is not None:
            message["profile"] = profile
        self._loop.call_soon_threadsafe(lambda: self._give(number, message))
        order.answered.wait(ORDER_S)
        with self._lock:
            self._orders.pop(number, None)
        if order.done is None:
            raise NotRunning(order.why or f"the keeper did not say within {ORDER_S:g} s what became of {verb} {name}")
        return order.done

    def tell(self, message: Data) -> None:
        """Send a message that needs no answer; without a keeper it is lost (`greeting` says all that matters)."""
        if self._greeted:
            self._send(message)

    def ping(self, now_ns: int) -> None:
        """Ask whether the keeper is there: it is heard as `{"type": "pong", "asked_ns"}`; without an answer the link is cut."""
        if not self._greeted:
            return
        if self._ping is None:
            self._ping = str(next(self._ids)), now_ns
            self._send({"type": "ping", "id": self._ping[0]})
        elif now_ns - self._ping[1] > ANSWER_NS:
            self._drop(f"{self._path}: the keeper does not answer for {ANSWER_NS // 10**9} s")

    def close(self) -> None:
        """End the connection and every order that waits."""
        self._closed = True
        self._drop("agentd stops", again=False)

    def _give(self, number: str, message: Data) -> None:
        if self._greeted:
            self._send(message)
        else:
            self._fail([number], f"no keeper: {self.why or 'not connected yet'}")

    def _read(self) -> None:
        assert self._sock is not None
        try:
            chunk = self._sock.recv(_CHUNK)
        except BlockingIOError:
            return
        except OSError as error:
            self._drop(f"{self._path}: {error.strerror or error}")
            return
        if not chunk:
            self._drop(f"{self._path}: the keeper closed the connection")
            return
        self._in += chunk
        while self._sock is not None and (end := self._in.find(b"\n")) >= 0:
            line = bytes(self._in[:end])
            del self._in[: end + 1]
            self._take(line)
        if len(self._in) > LINE:
            self._drop(f"{self._path}: a line of more than {LINE} bytes")

    def _take(self, line: bytes) -> None:
        try:
            message = wire.decode(line)
        except BadRequest as error:
            self._drop(f"{self._path}: {error}")
            return
        if message.get("type") == "hello":
            self._greet(message)
        elif message.get("type") == "done":
            self._done(message)
        elif self._greeted or "seq" not in message:
            self._heard(message)

    def _greet(self, hello: Data) -> None:
        keeper = str(hello.get("keeper"))[:64]
        if keeper != self._keeper:
            self._keeper = keeper
            self._send({"type": "subscribe", "keeper": keeper, "since": self._since(keeper)})
            return
        self._greeted, self._pause_s, self.why = True, SOONEST_S, ""
        self._changed("")
        self._heard(hello)
        for message in self._greeting():
            if self._sock is not None:  # else it broke with the one before, which is told by now
                self._send(message)

    def _done(self, message: Data) -> None:
        number, ms = message.get("id"), message.get("ms")
        if self._ping is not None and number == self._ping[0]:
            (_number, asked_ns), self._ping = self._ping, None
            self._heard({"type": "pong", "asked_ns": asked_ns})
            return
        with self._lock:
            order = self._orders.get(number) if isinstance(number, str) else None
        if order is not None:
            took = float(ms) if isinstance(ms, int | float) else 0.0
            order.done = Done(message.get("ok") is True, str(message.get("detail") or "")[:1000], took)
            order.answered.set()

    def _send(self, message: Data) -> None:
        self._out += wire.encode(message)
        if len(self._out) > _UNSENT:
            self._drop(f"{self._path}: the keeper does not read")
            return
        self._flush()

    def _flush(self) -> None:
        if self._sock is None:
            return
        try:
            while self._out:
                del self._out[: self._sock.send(self._out)]
        except BlockingIOError:
            self._loop.on_writable(self._sock.fileno(), self._flush)
            return
        except OSError as error:
            self._drop(f"{self._path}: {error.strerror or error}")
            return
        self._loop.on_writable(self._sock.fileno(), None)

    def _drop(self, why: str, *, again: bool = True) -> None:
        if self._sock is not None:
            self._loop.forget(self._sock.fileno())
            self._sock.close()
            self._sock = None
        was, self._greeted, self._keeper, self._ping = self._greeted, False, "", None
        self._in.clear()
        self._out.clear()
        with self._lock:
            waiting = list(self._orders)
        self._fail(waiting, f"the keeper went away: {why}")
        if was and again:
            self._changed(why)
        if again:
            self._later(why)

    def _later(self, why: str) -> None:
        self.why = why
        self._loop.once(self._pause_s, self.start, "keeper connect")
        self._pause_s = min(2 * self._pause_s, LATEST_S)

    def _fail(self, numbers: Iterable[str], why: str) -> None:
        with self._lock:
            found = [order for number in numbers if (order := self._orders.get(number)) is not None]
        for order in found:
            order.why = why
            order.answered.set()


class _Order:
    """One order that waits for its answer."""

    __slots__ = ("answered", "done", "why")

    def __init__(self) -> None:
        self.answered = Signal()
        self.done: Done | None = None
        self.why = ""
