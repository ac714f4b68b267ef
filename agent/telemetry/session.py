"""The life of one connection: say who we are, keep the window filled, listen, notice when the broker falls silent.

Runs on the thread "mqtt". It ends with a `Loss`, or with None after a clean stop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from agent.model import Data
from agent.ports import Clock
from agent.telemetry import messages
from agent.telemetry.flow import WINDOW, S, Window
from agent.telemetry.link import PROTOCOL_ERROR, Accepted, Link, packet_size
from agent.telemetry.marks import Marks
from agent.telemetry.messages import BIRTH, HEALTH, STATUS, Message, Names, Packet, Request
from agent.telemetry.poll import Poll
from agent.telemetry.tls import Loss

CONNACK_NS = 10 * S
ACK_NS = 60 * S  # a broker that pings but acknowledges nothing for this long is as good as silent
LEAVE_NS = 2 * S  # a clean stop waits this long for what is on its way
PROPERTIES = 1024  # bytes; what a packet has beside its body is less
_POISON = {0x90: "topic", 0x95: "oversize", 0x99: "format"}  # PUBACK codes that no retry will change
_MALFORMED = {0x81, PROTOCOL_ERROR, 0x95, 0x99}  # ends that one of our packets may have caused
_FAILURE = 0x80


class Backlog(Protocol):
    """The spool, as the publisher sees it; every call returns at once."""

    def acked(self, ids: Sequence[int]) -> None:
        """Mark as delivered."""
        ...

    def keep(self, samples: Sequence[Message]) -> None:
        """Store samples that could not be delivered from memory."""
        ...

    def quarantine(self, number: int, reason: str) -> None:
        """Take a poison message out of the backlog."""
        ...

    def pending(self, request: Request) -> None:
        """Ask for a page of the backlog."""
        ...


@dataclass(frozen=True, slots=True)
class Identity:
    """Who speaks."""

    names: Names
    boot_id: str


@dataclass(slots=True)
class Desk:
    """What other threads lay down for the connection, and what they may read of it. Outlives all connections."""

    latest: dict[str, tuple[int, Data]] = field(default_factory=dict)  # birth, status, health: version and payload
    inbox: deque[Message] = field(default_factory=deque)  # live messages
    pages: deque[tuple[Request, Sequence[Message]]] = field(default_factory=deque)  # of the backlog
    overflow: deque[Message] = field(default_factory=lambda: deque(maxlen=1))  # the inbox had no room
    connected: Callable[[], None] = lambda: None  # called once per connection that the broker accepts
    up: bool = False
    stopping: bool = False
    muted: dict[str, int] = field(default_factory=dict)  # versions of birth, status, health that the broker does not bear
    suspects: int = 0  # messages to be sent one by one, since one of them made the broker hang up
    published: int = 0
    quarantined: int = 0
    refusal: str = ""


class Session:
    """One connection over `link`."""

    def __init__(
        self, link: Link, window: Window, desk: Desk, backlog: Backlog, who: Identity, clock: Clock, marks: Marks
    ) -> None:
        self._link, self._window, self._desk, self._backlog = link, window, desk, backlog
        self._who, self._clock, self._marks = who, clock, marks
        self._begun = self._heard = self._ping = clock.mono_ns()
        self._told: dict[str, int] = {}
        self._telling = ""
        self._granted: Accepted | None = None
        self._leave_ns: int | None = None

    def run(self, poll: Poll) -> Loss | None:
        """Connect and stay until the connection is lost (why), or the desk says stop (None)."""
        self._link.open()
        if self._link.lost is not None:
            return self._link.lost
        self._begun = self._heard = self._ping = self._clock.mono_ns()
        poll.watch(self._link.fileno())
        try:
            while not self._may_leave():
                self._turn(readable=poll.wait(self._wait_s(), write=self._link.wants_write()))
                if loss := self._fault():
                    return loss
        finally:
            poll.forget()
            self._end()
        return None

    def _turn(self, *, readable: bool) -> None:
        now = self._clock.mono_ns()
        if readable:
            self._heard = now
        self._link.pump(readable=readable)
        if self._granted is None:
            if self._link.accepted is not None:
                self._welcome(self._link.accepted)
            else:
                return
        self._settle(now)
        self._take_in(now)
        self._tell(now)
        if not self._desk.stopping:
            self._fill(now)
            self._ask(now)

    def _welcome(self, granted: Accepted) -> None:
        self._granted = granted
        self._window.open(1 if self._desk.suspects else min(WINDOW, granted.receive_maximum))
        self._desk.up = True
        self._desk.connected()

    def _settle(self, now: int) -> None:
        """Take the acknowledgements that came."""
        acks, self._link.acks = self._link.acks, []
        done = []
        for mid, code in acks:
            message = self._window.acked(mid)
            if code in _POISON and message is not None:
                self._reject(message, _POISON[code])
            elif code >= _FAILURE:
                self._desk.refusal = f"the broker refuses messages (reason code {code:#04x}); check its access rules"
                self._window.refused(now)
            else:
                self._desk.refusal = ""
                self._desk.published += 1
                done += [message.id] if message is not None and message.id else []
        if done:
            self._backlog.acked(done)
            self._trust(len(done))

    def _trust(self, n: int) -> None:
        """Widen the window again once the suspects got through one by one."""
        if self._desk.suspects and self._granted is not None:
            self._desk.suspects = max(0, self._desk.suspects - n)
            if not self._desk.suspects:
                self._window.widen(min(WINDOW, self._granted.receive_maximum))

    def _take_in(self, now: int) -> None:
        while self._desk.inbox:
            self._window.offer(self._desk.inbox.popleft())
        while self._desk.overflow:
            self._window.missed(self._desk.overflow.popleft())
        while self._desk.pages:
            self._window.page(*self._desk.pages.popleft(), now)

    def _tell(self, now: int) -> None:
        """Send the newest birth, status and health, if they were not yet sent on this connection."""
        for leaf in (BIRTH, STATUS, HEALTH):
            version, payload = self._desk.latest.get(leaf, (0, {}))
            if version == self._told.get(leaf, 0) or self._window.full():
                continue
            self._told[leaf] = version
            make = messages.fleeting if leaf == HEALTH else messages.retained
            packet = make(self._who.names, leaf, self._who.boot_id, self._marks.take(leaf), payload)
            if not self._too_big(packet) and self._desk.muted.get(leaf) != version:
                self._telling = leaf
                self._send(packet, None, now)

    def _fill(self, now: int) -> None:
        while self._link.lost is None and (item := self._window.next(now)):
            message, replayed = item
            hist = replayed or messages.is_history(message, self._who.boot_id, self._clock.wall())
            packet = messages.packet(self._who.names, message, hist=hist)
            if self._too_big(packet):
                self._window.skip(message)
                self._reject(message, "oversize")
            else:
                self._send(packet, message, now, replayed=replayed)

    def _send(self, packet: Packet, message: Message | None, now: int, *, replayed: bool = False) -> None:
        mid = self._link.publish(packet)
        self._ping = now
        if mid is not None:
            self._window.sent(mid, message, now, replayed=replayed)
        elif message is not None and not message.id:
            self._backlog.keep([message])

    def _ask(self, now: int) -> None:
        if late := self._window.overdue(now):
            self._backlog.keep(late)
        if (request := self._window.wants(now)) is not None:
            self._backlog.pending(request)

    def _too_big(self, packet: Packet) -> bool:
        limit = self._granted.maximum_packet if self._granted else 0
        return len(packet.payload) + PROPERTIES > limit and packet_size(packet) > limit

    def _reject(self, message: Message, reason: str) -> None:
        self._desk.quarantined += 1
        if message.id:
            self._backlog.quarantine(message.id, reason)

    def _keepalive_ns(self) -> int:
        return (self._granted.keepalive_s if self._granted else 0) * S

    def _wait_s(self) -> float | None:
        """Give how long nothing will be due, in seconds."""
        now = self._clock.mono_ns()
        if self._granted is None:
            return max(0, self._begun + CONNACK_NS - now) / S
        times = [self._window.due_ns(), self._leave_ns]
        if (oldest := self._window.oldest_ns()) is not None:
            times.append(oldest + ACK_NS)
        if keepalive := self._keepalive_ns():
            ping = min(self._ping, self._heard) + keepalive
            # At that moment `Link.pump` lets paho ping; then the answer is awaited.
            times.append(ping if ping > now else self._heard + keepalive * 3 // 2)
        due = min((time for time in times if time is not None), default=None)
        return None if due is None else max(0, due - now) / S

    def _fault(self) -> Loss | None:
        now = self._clock.mono_ns()
        oldest = self._window.oldest_ns()
        if self._link.lost is not None:
            return self._link.lost
        if self._granted is None and now - self._begun >= CONNACK_NS:
            return Loss("waiting", "the broker does not answer CONNECT")
        if (keepalive := self._keepalive_ns()) and now - self._heard >= keepalive * 3 // 2:
            return Loss("waiting", f"the broker is silent for {(now - self._heard) / S:.0f} s")
        if oldest is not None and now - oldest >= ACK_NS:
            return Loss("waiting", "the broker acknowledges nothing")
        return None

    def _may_leave(self) -> bool:
        if not self._desk.stopping:
            return False
        now = self._clock.mono_ns()
        self._leave_ns = self._leave_ns or now + LEAVE_NS
        told = self._told.get(STATUS, 0) == self._desk.latest.get(STATUS, (0, {}))[0]
        return self._granted is None or now >= self._leave_ns or (told and not self._window.flights)

    def _accuse(self, flying: Sequence[Message | None]) -> None:
        """One of `flying` made the broker hang up: if it was alone, it is not sent again; else they go one by one next time."""
        if len(flying) != 1:
            self._desk.suspects = len(flying)
        elif (culprit := flying[0]) is not None:
            self._reject(culprit, "refused")
        else:
            self._desk.muted[self._telling] = self._told[self._telling]

    def _end(self) -> None:
        """Hand back what only memory holds; find out whether one of our packets made the broker hang up."""
        self._desk.up = False
        if self._link.lost is not None and self._link.lost.code in _MALFORMED:
            self._accuse([flight.message for flight in self._window.flights.values()])
        orphans = self._window.close()
        while self._desk.inbox:
            orphans += [message for message in [self._desk.inbox.popleft()] if not message.id]
        if orphans:
            self._backlog.keep(orphans)
        self._link.close(clean=self._link.lost is None and self._desk.stopping)
