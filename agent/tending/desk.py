"""The keeper's side of the wire to agentd: numbers and sends what is told, serves what is asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from agent.keeping import messages
from agent.keeping.crew import Crew
from agent.keeping.effects import Effects, Order, Tell
from agent.keeping.history import History
from agent.keeping.messages import BudgetChange, Malformed, Ping, Subscribe
from agent.keeping.thrift import Thrift
from agent.linux.keeperserver import Client, KeeperServer
from agent.linux.loop import EpollLoop
from agent.linux.timers import Timer
from agent.model import Data
from agent.ports import Clock, Journal

BEATS_S = 1.0  # at least, between two messages of signs of life
_NS = 1_000_000_000
_SHOWN = ("name", "what", "state", "pid", "code", "signal", "replaced_pid", "replaced_ms")  # in the journal
_WORTH_A_LINE = ("backoff", "failed", "stopped", "held")


class Desk:
    """Tells `server`'s subscribers; an order goes to `act` as the effects that it has."""

    def __init__(
        self, loop: EpollLoop, clock: Clock, journal: Journal, crew: Crew, history: History, act: Callable[[Effects], None]
    ) -> None:
        """Nobody listens yet; what is told meanwhile is kept."""
        self.thrift = Thrift()
        self._loop = loop
        self._clock = clock
        self._journal = journal
        self._crew = crew
        self._history = history
        self._act = act
        self._server: KeeperServer | None = None
        self._orders: dict[str, tuple[Client, str]] = {}  # who gave those that are not done, and by which id
        self._given = 0
        self._beating: set[str] = set()
        self._beats_ns = 0
        self._timer: Timer | None = None

    def open(self, server: KeeperServer) -> None:
        """Let agents in."""
        self._server = server

    def tell(self, message: Data) -> None:
        """Send and keep `message`, notices within what a workload may make us say, and write a line if it is unusual."""
        if message["type"] == "notice" and not self._may_pass(message):
            return
        if message["type"] == "done":
            self._answer(message)
            return
        numbered = self._history.add(message)
        if self._server is not None:
            self._server.tell(messages.encode(numbered))
        if message["type"] in {"exit", "notice"} or message.get("state") in _WORTH_A_LINE:
            fields = {key: message[key] for key in _SHOWN if message.get(key) is not None}
            self._journal.line("info" if message["type"] == "state" else "warning", str(message["type"]), fields)

    def beat(self, name: str) -> None:
        """Note that `name` gave a sign of life, to be told within `BEATS_S`."""
        self._beating.add(name)
        if self._timer is None and self._server is not None and self._server.heard:
            wait = BEATS_S + (self._beats_ns - self._clock.mono_ns()) / _NS
            self._timer = self._loop.once(max(wait, 0), self._send_beats, "keeper.beats")

    def asked(self, client: Client, line: bytes) -> None:
        """Serve one line."""
        request = messages.read(line)
        if isinstance(request, Malformed):
            client.send(messages.encode(messages.done(request.id, request.why, 0, ok=False)))
        elif isinstance(request, Subscribe):
            self._subscribe(client, request)
        elif isinstance(request, BudgetChange):
            self._crew.change(request)
        elif isinstance(request, Ping):
            client.send(messages.encode(messages.done(request.id, "here", 0, ok=True)))
        else:
            self._order(client, request)

    @staticmethod
    def refusal(uid: int) -> bytes:
        """Give the line for somebody who may not ask."""
        why = f"the keeper serves root, gatewarden and its own user, not uid {uid}"
        return messages.encode(messages.done(None, why, 0, ok=False))

    def _order(self, client: Client, order: Order) -> None:
        self._given += 1
        self._orders[str(self._given)] = client, order.id
        self._journal.line("info", "order", {"verb": order.verb, "name": order.name, "reason": order.reason})
        self._act(self._crew.obey(replace(order, id=str(self._given)), self._clock.mono_ns()))

    def _answer(self, done: Data) -> None:
        """Give `done` to the agent that gave the order: another one may use the same ids."""
        client, known = self._orders.pop(str(done["id"]))
        client.send(messages.encode({**done, "id": known}))

    def _subscribe(self, client: Client, wish: Subscribe) -> None:
        seq = self._history.seq
        missed, lost = self._history.missed(wish)
        states = [effect.message for effect in self._crew.states(self._clock.mono_ns()) if isinstance(effect, Tell)]
        client.subscribed = True
        client.send(messages.encode(messages.hello(self._history.keeper, os.getpid(), seq, lost)))
        for message in (*missed, *({**state, "seq": seq, "now": True} for state in states)):
            client.send(messages.encode(message))
        for name in tuple(self._beating):
            self.beat(name)

    def _may_pass(self, message: Data) -> bool:
        data = message["data"]
        assert isinstance(data, dict)
        kind = str(data.get("kind", ""))
        kind = "work" if kind.startswith("work.") else kind  # of which a workload can make up any number
        key = f"{message['name']} {message['what']} {kind}"
        if not self.thrift.allows(key, self._clock.mono_ns()):
            return False
        if held := self.thrift.kept_back(key):
            message["data"] = {**data, "kept_back": held}
        return True

    def _send_beats(self) -> None:
        self._timer, self._beats_ns = None, self._clock.mono_ns()
        beats = self._crew.beats(sorted(self._beating))
        self._beating.clear()
        self.tell(messages.beats(self._beats_ns, beats))
