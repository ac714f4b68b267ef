"""The client of the keeper's socket, against a server of our own on a real unix socket."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from agent.errors import NotRunning
from agent.linux.keeperclient import KeeperClient
from agent.linux.loop import EpollLoop
from agent.model import Data
from tests.brokers import wait_for

KEPT: list[Data] = [{"type": "state", "seq": n, "name": "w"} for n in range(1, 6)]


class Keeper:
    """Answers as the keeper does: a subscription by hello and what was missed, an order by done."""

    def __init__(self, path: Path, identity: str = "k1") -> None:
        """Listen."""
        self.identity = identity
        self.got: list[dict[str, Any]] = []
        self.refuse = False
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        path.unlink(missing_ok=True)
        self.server.bind(str(path))
        self.server.listen(4)
        self.peer: socket.socket | None = None
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        try:
            while True:
                self.peer, _address = self.server.accept()
                with self.peer, self.peer.makefile("rb") as lines, suppress(ConnectionError):  # the client cut it off
                    for line in lines:
                        self._take(json.loads(line))
        except OSError:
            return

    def _take(self, message: dict[str, Any]) -> None:
        self.got.append(message)
        if message["type"] == "subscribe":
            self.say({"type": "hello", "keeper": self.identity, "seq": 5, "lost": 0})
            since = message["since"] if message["keeper"] == self.identity else 5
            now: Data = {"type": "state", "seq": 5, "name": "w", "now": True}
            for one in (*KEPT[since:], now):
                self.say(one)
        elif message["type"] in {"order", "ping"} and not self.refuse:
            self.say({"type": "done", "id": message["id"], "ok": True, "detail": "done it", "ms": 2.5})

    def say(self, message: Data) -> None:
        """Send one message."""
        self.raw(json.dumps(message).encode() + b"\n")

    def raw(self, block: bytes) -> None:
        """Send bytes."""
        assert self.peer is not None
        self.peer.sendall(block)

    def cut(self) -> None:
        """End the connection."""
        if self.peer is not None:
            self.peer.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Be gone."""
        with suppress(OSError):  # wakes the thread in accept(2)
            self.server.shutdown(socket.SHUT_RDWR)
        with suppress(OSError):
            self.cut()
        self.thread.join(10)
        self.server.close()


@dataclass
class End:
    """The client on a loop of its own thread."""

    client: KeeperClient
    loop: EpollLoop
    heard: list[Data] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)


@contextmanager
def client(path: Path, since: Callable[[str], int] = lambda _keeper: 0) -> Iterator[End]:
    """Run a client on `path`."""
    loop = EpollLoop(lambda name, error: pytest.fail(f"{name}: {error}"))
    heard: list[Data] = []
    changes: list[str] = []
    budget: Data = {"type": "budget", "name": "w", "burst": 5, "window_s": 60.0}
    one = KeeperClient(loop, path, heard.append, since, lambda: [budget], changes.append)
    loop.call_soon_threadsafe(one.start)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield End(one, loop, heard, changes)
    finally:
        loop.call_soon_threadsafe(one.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give the socket's path."""
    return tmp_path / "keeper.sock"


@pytest.fixture
def keeper_of(path: Path) -> Iterator[Callable[..., Keeper]]:
    """Give the function that makes a keeper; all are gone afterwards."""
    made: list[Keeper] = []

    def make(identity: str = "k1") -> Keeper:
        made.append(Keeper(path, identity))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_it_goes_on_behind_what_is_durable_here(path: Path, keeper_of: Callable[..., Keeper]) -> None:
    """Pins that numbered messages begin behind the last one that this agentd has of this keeper, none twice, none left out."""
    keeper = keeper_of()
    with client(path, {"k1": 3}.__getitem__) as end:
        wait_for(lambda: len(end.heard) >= 4, "the messages")
    assert [message.get("seq") for message in end.heard] == [5, 4, 5, 5]  # hello, two missed, the state as it is now
    assert [(row["keeper"], row["since"]) for row in keeper.got if row["type"] == "subscribe"] == [(None, 0), ("k1", 3)]
    assert [row["type"] for row in keeper.got].count("budget") == 1
    assert end.changes[0] == ""


def test_an_order_waits_for_its_answer(path: Path, keeper_of: Callable[..., Keeper]) -> None:
    """Pins an order from another thread: its words reach the keeper, its outcome comes back."""
    keeper = keeper_of()
    with client(path) as end:
        wait_for(lambda: end.client.connected, "hello")
        done = end.client.order("degrade", "w", "no sound", "low")
    assert (done.ok, done.detail, done.ms) == (True, "done it", 2.5)
    (order,) = [row for row in keeper.got if row["type"] == "order"]
    assert (order["verb"], order["name"], order["reason"], order["profile"]) == ("degrade", "w", "no sound", "low")


def test_without_a_keeper_an_order_fails_at_once(path: Path, keeper_of: Callable[..., Keeper]) -> None:
    """Pins that the actions' thread is not held up by a keeper that is not there, or goes away meanwhile."""
    with client(path) as end, pytest.raises(NotRunning, match="no keeper"):
        end.client.order("restart", "w", "because")
    keeper = keeper_of()
    keeper.refuse = True
    with client(path) as end:
        wait_for(lambda: end.client.connected, "hello")
        cut = threading.Timer(0.2, keeper.cut)
        cut.start()
        with pytest.raises(NotRunning, match="went away"):
            end.client.order("restart", "w", "because")
        cut.join()


def test_it_comes_back_to_a_new_keeper(path: Path, keeper_of: Callable[..., Keeper]) -> None:
    """Pins that a keeper which starts late, or anew under another id, is found without anybody's help."""
    with client(path) as end:
        first = keeper_of()
        wait_for(lambda: end.client.connected, "the first")
        first.close()
        wait_for(lambda: not end.client.connected, "its end")
        second = keeper_of("k2")
        wait_for(lambda: end.client.connected, "the second")
    assert second.got[1]["keeper"] == "k2"
    assert [bool(why) for why in end.changes][:3] == [False, True, False]


def test_a_keeper_that_hangs_is_cut_off(path: Path, keeper_of: Callable[..., Keeper]) -> None:
    """Pins that its answer is heard with the time of the question, and that without one the link breaks after 10 s."""
    keeper = keeper_of()
    second_ns = 10**9
    with client(path) as end:
        wait_for(lambda: end.client.connected, "hello")
        end.loop.call_soon_threadsafe(lambda: end.client.ping(7))
        wait_for(lambda: {"type": "pong", "asked_ns": 7} in end.heard, "its answer")
        keeper.refuse = True
        for now_s in (100, 109, 111):
            end.loop.call_soon_threadsafe(lambda now_s=now_s: end.client.ping(now_s * second_ns))  # type: ignore[misc]
        wait_for(lambda: any("does not answer" in why for why in end.changes), "the end of the link")
    assert [row["type"] for row in keeper.got].count("ping") == 2


@pytest.mark.parametrize("rubbish", [b"\xff\xfe\n", b"[1]\n", b"x" * 200_000, b'{"type": "done", "id": 7}\n{"a":'])
def test_rubbish_costs_the_connection_at_most(path: Path, keeper_of: Callable[..., Keeper], rubbish: bytes) -> None:
    """Pins that what is no JSON object, or has no end, is answered by a new connection, in bounded memory."""
    keeper = keeper_of()
    with client(path) as end:
        wait_for(lambda: end.client.connected, "hello")
        with suppress(OSError):  # the client may have cut it off by then
            keeper.raw(rubbish)
            keeper.cut()
        wait_for(lambda: len(end.changes) >= 3, "the next connection")


def test_a_link_that_breaks_as_it_comes_up_is_down(path: Path) -> None:
    """Pins that a keeper which ends behind its hello is not taken for one that is there."""
    hello = b'{"type": "hello", "keeper": "k1", "seq": 0, "lost": 0}\n'
    with closing(socket.socket(socket.AF_UNIX)) as server:
        server.bind(str(path))
        server.listen(1)
        with client(path) as end:
            peer, _address = server.accept()
            server.close()
            peer.sendall(hello)
            wait_for(lambda: b'"k1"' in peer.recv(4096, socket.MSG_PEEK), "it subscribes to k1")
            peer.sendall(hello)
            peer.shutdown(socket.SHUT_RDWR)
            peer.close()
            wait_for(lambda: bool(end.client.why) and len(end.changes) > 1, "it is told")
            assert end.changes[0] == ""
            assert end.changes[-1]
