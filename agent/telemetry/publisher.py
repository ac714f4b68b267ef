"""The publisher: a thread that holds a connection to the broker for ever, or is about to have one again.

Nothing waits for it. Without a connection messages stay in the outbox; when it comes back, they are replayed behind the live
ones. Reconnecting backs off with full jitter, so that a fleet does not return to a restarted broker in step. A change of state
is told once, not once per attempt.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Thread

from agent.model import Data
from agent.ports import Clock
from agent.telemetry import messages
from agent.telemetry.flow import S, Window
from agent.telemetry.link import Broker, Link
from agent.telemetry.marks import Marks
from agent.telemetry.messages import BIRTH, HEALTH, STATUS, Message, Request
from agent.telemetry.poll import Poll
from agent.telemetry.session import Backlog, Desk, Identity, Session
from agent.telemetry.tls import Loss

BASE_S, CAP_S = 1.0, 60.0
STEADY_NS = 10 * S  # a connection that held this long was a good one: the next back-off begins small
INBOX = 512  # live messages; more are left to the replay
CLOSE_S = 5.0


def backoff_s(attempt: int, chance: float) -> float:
    """Give the pause before attempt number `attempt` (from 0): full jitter, `chance` (0..1) of 1, 2, 4 … 60 s."""
    return chance * min(CAP_S, BASE_S * 2.0 ** min(attempt, 10))


class Publisher:
    """Publishes for `who` on `broker`. It is the spool's `Sink`.

    `chance` is a random source that gives 0 <= x < 1; `report` is called with `(state, reason)` on the thread "mqtt".
    """

    def __init__(
        self,
        broker: Broker,
        who: Identity,
        backlog: Backlog,
        clock: Clock,
        marks: Marks,
        chance: Callable[[], float],
        report: Callable[[str, str], None],
    ) -> None:
        self._broker, self._who, self._backlog, self._clock, self._marks = broker, who, backlog, clock, marks
        self._chance, self._report = chance, report
        self._desk = Desk(connected=lambda: self._tell("connected", ""))
        self._window = Window()
        self._poll = Poll()
        self._state, self._reason, self._reported = "waiting", "not started", ""
        self._attempts, self._faults = 0, 0
        self._retry = False
        self._thread = Thread(target=self._run, name="mqtt", daemon=True)
        self.announce("online")

    def start(self) -> None:
        """Begin to connect."""
        self._thread.start()

    def introduce(self, birth: Data) -> None:
        """Say what this agent is (retained): now, and first thing on every connection."""
        self._lay_down(BIRTH, birth)

    def announce(self, state: str) -> None:
        """Say (retained) that the gateway is `online`, `offline` or in `maintenance`."""
        self._lay_down(STATUS, messages.status(state, self._who.boot_id, self._clock.wall()))

    def health(self, payload: Data) -> None:
        """Publish the newest health; an older one that was not sent yet is forgotten."""
        self._lay_down(HEALTH, payload)

    def state(self) -> Data:
        """Give `state` (connected, connecting, waiting, clock, refused, stopped), `reason`, and counters."""
        desk = self._desk
        counters: Data = {"published": desk.published, "quarantined": desk.quarantined}
        return {
            "state": self._state,
            "reason": (desk.refusal if desk.up else self._reason),
            "attempts": self._attempts,
            "faults": self._faults,
            "wakeups": self._poll.wakeups,
            **counters,
        }

    def retry(self) -> None:
        """Connect at once (the clock was set, a network came up) if it waits for the next attempt."""
        if not self._desk.up:
            self._retry = True
            self._poll.wake()

    def close(self) -> None:
        """Publish `offline`, disconnect, end the thread; in bounded time."""
        self.announce("offline")
        self._desk.stopping = True
        self._poll.wake()
        if self._thread.ident is not None:
            self._thread.join(CLOSE_S)
        if not self._thread.is_alive():
            self._poll.close()

    def offer(self, messages: Sequence[Message]) -> None:
        """Take what was just committed, if there is a connection; else the replay will find it."""
        if not self._desk.up:
            return
        if len(self._desk.inbox) + len(messages) > INBOX:
            self._desk.overflow.append(messages[0])
        else:
            self._desk.inbox.extend(messages)
        self._poll.wake()

    def hears(self) -> bool:
        """Whether there is a connection."""
        return self._desk.up

    def sample(self, message: Message) -> bool:
        """Take a metrics sample; False if there is no connection."""
        if not self._desk.up or len(self._desk.inbox) >= INBOX:
            return False
        self._desk.inbox.append(message)
        self._poll.wake()
        return True

    def page(self, request: Request, messages: Sequence[Message]) -> None:
        """Take the page of the backlog that was asked for."""
        self._desk.pages.append((request, messages))
        self._poll.wake()

    def _lay_down(self, leaf: str, payload: Data) -> None:
        version = self._desk.latest.get(leaf, (0, {}))[0] + 1
        self._desk.latest[leaf] = version, payload
        self._poll.wake()

    def _run(self) -> None:
        failed = 0  # attempts in a row
        while not self._desk.stopping:
            begun = self._clock.mono_ns()
            try:
                if (loss := self._connect()) is not None:
                    self._tell(loss.state, loss.reason)
            except Exception as error:  # noqa: BLE001 - whatever it was, it must not end the thread; it is counted and shown
                self._faults += 1
                self._state, self._reason = "waiting", f"a fault of the publisher: {type(error).__name__}"
            steady = self._clock.mono_ns() - begun >= STEADY_NS
            self._pause(backoff_s(0 if steady else failed, self._chance()))
            failed = 0 if steady else failed + 1
        self._state, self._reason = "stopped", ""

    def _connect(self) -> Loss | None:
        """Run one connection."""
        self._attempts += 1
        self._retry = False
        self._state = "connecting"
        link = Link(self._broker, self._who.names.client_id, self._will())
        return Session(link, self._window, self._desk, self._backlog, self._who, self._clock, self._marks).run(self._poll)

    def _will(self) -> messages.Packet:
        payload = messages.status("offline", self._who.boot_id, self._clock.wall())
        return messages.retained(self._who.names, STATUS, self._who.boot_id, self._marks.take(STATUS), payload)

    def _pause(self, seconds: float) -> None:
        end = self._clock.mono_ns() + int(seconds * S)
        while not self._desk.stopping and not self._retry and (left := end - self._clock.mono_ns()) > 0:
            self._poll.wait(left / S)

    def _tell(self, state: str, reason: str) -> None:
        """Show the state; report it if it is another one than was reported last."""
        self._state, self._reason = state, reason
        if state != self._reported:
            self._reported = state
            self._report(state, reason)
