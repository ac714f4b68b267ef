"""Which message goes next: live before history, never more in flight than the broker takes, replay at a bounded rate. Pure.

One `Window` serves one publisher for ever; `open` and `close` frame a connection. Times are CLOCK_MONOTONIC in ns, handed in.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from agent.telemetry.messages import Message, Request

S = 1_000_000_000  # ns
WINDOW = 20  # in flight at once, unless the broker's Receive Maximum is lower
LIVE_ROOM = 256  # what does not fit is in the outbox and comes by replay
PAGE = 32  # messages of the backlog asked for at once
REPLAY_SLICE_NS, REPLAY_PER_SLICE = S // 10, 20  # 200 messages/s: 1.5 % of a core, and room for live ones on a thin line
KEEP_NS = S  # a sample that is not acknowledged by then goes into the outbox
REFUSED_NS = 10 * S  # pause of the replay after a refusal that may pass (no right to publish, quota)
AGAIN_NS = 60 * S  # and until the refused ones are offered again
START = (-1, 0)  # the place before all others


@dataclass(slots=True)
class Flight:
    """A message on its way; `message` is None for birth, status and health, which nobody stores."""

    message: Message | None
    sent_ns: int
    replayed: bool
    kept: bool = False


class Window:
    """The messages between outbox and broker."""

    def __init__(self) -> None:
        self.flights: dict[int, Flight] = {}
        self._size = 0
        self._live: deque[Message] = deque()
        self._history: deque[Message] = deque()
        self._known: set[tuple[str, str, int]] = set()
        self._after: tuple[int, int] | None = None
        self._asked: Request | None = None
        self._tickets = 0
        self._settled: set[tuple[str, str, int]] = set()  # acknowledged while a page was being read that may have them
        self._again = False
        self._missed: int | None = None
        self._restart = False
        self._resume_ns = 0
        self._slice_ns, self._left = 0, REPLAY_PER_SLICE

    def open(self, size: int) -> None:
        """Begin a connection that takes `size` messages at once: everything undelivered is to be replayed."""
        self.close()
        self._size = max(1, size)
        self._after = START

    def widen(self, size: int) -> None:
        """Take more (or fewer) at once from now on."""
        self._size = max(1, size)

    def close(self) -> list[Message]:
        """End the connection; gives the samples that only memory holds. All else is in the outbox."""
        flying = [flight.message for flight in self.flights.values() if flight.message and not flight.kept]
        orphans = [message for message in (*flying, *self._live) if not message.id]
        self.flights.clear()
        self._live.clear()
        self._history.clear()
        self._known.clear()
        self._settled.clear()
        self._size, self._after, self._asked = 0, None, None
        self._again, self._missed, self._restart, self._resume_ns = False, None, False, 0
        return orphans

    def offer(self, message: Message) -> None:
        """Take a live message. One that is on its way already is only noted to be stored now."""
        if message.key in self._known:
            for flight in self.flights.values():
                if flight.message and flight.message.key == message.key:
                    flight.message = message
        elif len(self._live) < LIVE_ROOM:
            self._known.add(message.key)
            self._live.append(message)
        else:
            self.missed(message)

    def missed(self, message: Message) -> None:
        """Note that there was no room for a live message: a replay will find it, if it is stored."""
        if self._missed is None and message.id:
            self._missed = message.id
        if self._after is None:
            self._after = START
        else:
            self._restart = True

    def wants(self, now: int) -> Request | None:
        """Give the page of the backlog to ask for now, if any."""
        if self._after is None or self._asked or len(self._history) > PAGE // 2 or now < self._resume_ns:
            return None
        self._tickets += 1
        self._asked = Request(self._tickets, self._after, PAGE)
        return self._asked

    def page(self, request: Request, messages: Sequence[Message], now: int) -> None:
        """Take the page that was asked for; a short one is the end of the backlog.

        An answer to a request of an earlier connection is left alone: this replay begins at the start.
        """
        if request != self._asked:
            return
        self._asked = None
        fresh = [message for message in messages if message.key not in self._known | self._settled]
        self._settled.clear()
        self._history.extend(fresh)
        self._known.update(message.key for message in fresh)
        if len(messages) >= PAGE:
            self._after = messages[-1].place
            return
        self._after = START if self._restart or self._again else None
        if self._again and not self._restart:
            self._resume_ns = now + AGAIN_NS
        self._restart, self._again = False, False

    def next(self, now: int) -> tuple[Message, bool] | None:
        """Give the message to send now, and whether it was in the backlog at connect."""
        if len(self.flights) >= self._size:
            return None
        if self._live:
            return self._live.popleft(), False
        if not self._history or now < self._resume_ns or not self._may_replay():
            return None
        if now >= self._slice_ns:
            self._slice_ns, self._left = now + REPLAY_SLICE_NS, REPLAY_PER_SLICE
        if not self._left:
            return None
        self._left -= 1
        message = self._history.popleft()
        return message, self._missed is None or message.id < self._missed

    def full(self) -> bool:
        """Whether the broker takes no more at present."""
        return len(self.flights) >= self._size

    def sent(self, mid: int, message: Message | None, now: int, *, replayed: bool = False) -> None:
        """Note that `message` went out as packet `mid`."""
        self.flights[mid] = Flight(message, now, replayed)

    def skip(self, message: Message) -> None:
        """Note that `message` will not be sent."""
        self._known.discard(message.key)

    def acked(self, mid: int) -> Message | None:
        """Take the acknowledgement of packet `mid`; gives its message, if it had one."""
        flight = self.flights.pop(mid, None)
        if flight is None or flight.message is None:
            return None
        self._known.discard(flight.message.key)
        if self._asked:
            self._settled.add(flight.message.key)
        return flight.message

    def refused(self, now: int) -> None:
        """Slow down: the broker refuses what it may take later."""
        self._again = True
        if self._after is None:
            self._after = START
            self._resume_ns = now + AGAIN_NS
        else:
            self._resume_ns = max(self._resume_ns, now + REFUSED_NS)

    def overdue(self, now: int) -> list[Message]:
        """Give, once, the samples in flight that are to be stored because no acknowledgement came in time."""
        late = [flight for flight in self.flights.values() if _at_risk(flight) and now - flight.sent_ns >= KEEP_NS]
        for flight in late:
            flight.kept = True
        return [flight.message for flight in late if flight.message]

    def oldest_ns(self) -> int | None:
        """Give when the message that has waited longest for its acknowledgement was sent."""
        return min((flight.sent_ns for flight in self.flights.values()), default=None)

    def due_ns(self) -> int | None:
        """Give when there will be something to do without anything arriving, None if never."""
        times = [flight.sent_ns + KEEP_NS for flight in self.flights.values() if _at_risk(flight)]
        if self._history and self._may_replay():
            times.append(max(self._resume_ns, 0 if self._left else self._slice_ns))
        elif self._after is not None and not self._asked:
            times.append(self._resume_ns)
        return min(times, default=None)

    def _may_replay(self) -> bool:
        """Replay never takes the whole window, so that a live message does not wait for a round trip."""
        return not self.full() and sum(flight.replayed for flight in self.flights.values()) < max(1, self._size * 3 // 4)


def _at_risk(flight: Flight) -> bool:
    return flight.message is not None and not flight.message.id and not flight.kept
