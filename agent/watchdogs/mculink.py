"""The microcontroller as agentd has it: port, lease client and loop put together. `ports.Mcu` and `feeding.Feeder`.

`Watchdogs.add(link, link.row)` makes the gate renew the lease; nothing else does. Imported only where [mcu] is configured.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue

from agent.errors import NotRunning, ProbeError, Refused
from agent.linux.loop import EpollLoop
from agent.linux.serial import Gone, Line, SerialPort
from agent.linux.timers import Timer
from agent.mcu.client import LeaseClient
from agent.mcu.lease import Link
from agent.mcu.ttl import Bounds
from agent.mcu.wire import Phase
from agent.model import Data, Json, Sighting
from agent.ports import Clock
from agent.probes import mcu_link
from agent.watchdogs.feeding import Margins
from agent.watchdogs.mcuview import report, row

# What HELLO asks for. At least three ticks of agentd: a shorter ttl would make it tick faster, and so learn a shorter one.
BOUNDS = Bounds(30_000, 120_000)
REOPEN_S = (1.0, 2.0, 5.0)
_CYCLE_DELAY_MS, _CYCLE_OFF_MS = 5_000, 10_000  # the last words reach the disk; the capacitors are empty
_REASON_LADDER, _REASON_OPERATOR = 1, 2
_ANSWER_S = 10.0


class McuLink:
    """One per agentd. All but `feed` and `power_cycle` belong to the loop's thread."""

    name = "mcu"

    def __init__(
        self,
        line: Line,
        loop: EpollLoop,
        clock: Clock,
        seen: Callable[[Sighting], None],
        nonce: Callable[[], int],
        bounds: Bounds = BOUNDS,
    ) -> None:
        """Touch nothing yet. `nonce` gives 32 random bits; `seen` takes `mcu.*` sightings."""
        self.client = LeaseClient(bounds, nonce)
        self.phase = Phase.RUN
        """What the gate's feeds ask for: RUN, MAINT while held, UPDATE during one."""
        self.margins = Margins(bounds.max_ms / 1000, clock.mono_ns())
        self.port: SerialPort | None = None
        self.path: Path | None = None
        """Where it was found last, by its stable name."""
        self._line, self._loop, self._clock, self._seen = line, loop, clock, seen
        self._timer: Timer | None = None
        self._reopen: Timer | None = None
        self._attempts = 0
        self._acks = 0
        self._evidence = ""
        self.going: Callable[[bool], None] = _nothing
        """Hears that an operator's power cycle comes, or that it does not come after all."""
        self._operators = 0
        """The number of the operator's power cycle that has been asked for and not answered."""
        self._waiting: list[tuple[int, SimpleQueue[str]]] = []

    @property
    def ttl_s(self) -> float:
        """The granted ttl; before the first lease, the longest that is asked for."""
        lease = self.client.lease
        return (lease.granted_ms or self.client.ttl.bounds.max_ms) / 1000

    @property
    def evidence(self) -> str:
        """What it knew of the gateway's last start when it was met (`agent.resets.causes.MCU`); empty before HELLO."""
        return self._evidence

    def start(self) -> None:
        """Look for it, and go on looking. Never raises."""
        self._open()

    def feed(self) -> None:
        """Have the lease renewed: all required work has reported. From any thread. Raises OSError without a link to do it."""
        if self.client.state not in {"hello", "leased", "lost"}:
            raise OSError(errno.ENODEV, f"mcu {self.client.state}: {self.client.reason}")
        self._loop.call_soon_threadsafe(partial(self._renew, self.phase))

    def hold(self, on: bool) -> None:  # noqa: FBT001 - a state
        """Maintenance: the next feed asks for phase MAINT, which has an absolute maximum in the MCU."""
        self.phase = Phase.MAINT if on else Phase.RUN

    def power_cycle(self, reason: str) -> str:
        """Have the MCU cut and restore the power; give when. Blocks, so not on the loop. Raises NotRunning or Refused."""
        answer: SimpleQueue[str] = SimpleQueue()
        self._loop.call_soon_threadsafe(partial(self._ask_cycle, _REASON_LADDER, answer))
        try:
            state, _, detail = answer.get(timeout=_ANSWER_S).partition(" ")
        except Empty:
            raise NotRunning(f"mcu: no answer within {_ANSWER_S:g} s ({reason})") from None
        if state == "confirmed":
            return detail
        raise (NotRunning if state == "unanswered" else Refused)(f"mcu: {detail}")

    def row(self) -> Data:
        """Give what `status.watchdogs` says of it besides what it says of every watchdog."""
        return row(self.client, self.margins, self.path, self._clock.mono_ns())

    def answer(self, request: Data) -> Json:
        """Serve the control verb `mcu`: `{"do": "status"|"log"|"power-cycle"}`. The work goes on after the reply: ask again."""
        now = self._clock.mono_ns()
        what = request.get("do", "status")
        if what == "log" and self.client.lease.token:
            self.client.reports.ask_log(now)
        elif what == "power-cycle":
            self.client.power_cycle(_CYCLE_DELAY_MS, _CYCLE_OFF_MS, _REASON_OPERATOR, now)
            cycle = self.client.cycle
            if cycle.state == "asked":
                self._operators = cycle.number
                self.going(True)
        self._after()
        return report(self.client, self.margins, self.path, now)

    def close(self, *, shutdown: bool = False) -> None:
        """Let go of the port. With `shutdown` a lease of that phase is asked for last: it covers a shutdown that may hang."""
        if shutdown and self.client.renew(Phase.SHUTDOWN, self._clock.mono_ns()):
            self._send()
        for timer in (self._timer, self._reopen):
            if timer is not None:
                timer.cancel()
        self._shut()

    def _renew(self, phase: Phase) -> None:
        self.client.renew(phase, self._clock.mono_ns())
        self._after()

    def _ask_cycle(self, reason: int, answer: SimpleQueue[str]) -> None:
        self.client.power_cycle(_CYCLE_DELAY_MS, _CYCLE_OFF_MS, reason, self._clock.mono_ns())
        self._waiting.append((self.client.cycle.number, answer))
        self._after()

    def _open(self) -> None:
        """Try each candidate; the first that opens is spoken to."""
        self._reopen = None
        self.client.closed("opening", "looking for its port", "", self._clock.mono_ns())
        found = self._candidates()
        failure: ProbeError = Gone("no serial port is there", "plug the microcontroller in; ls /dev/serial/by-id")
        for path in found:
            try:
                port = self._line.open(path)
            except ProbeError as error:
                failure = error
                continue
            self._opened(port)
            return
        self._closed(failure)

    def _candidates(self) -> tuple[Path, ...]:
        """Where it was last comes first; with `auto` each attempt begins with another, as the first may be somebody else's."""
        found = list(self._line.candidates())
        turn = self._attempts % len(found) if found else 0
        found = [*found[turn:], *found[:turn]]
        known = [self.path] if self.path is not None and self.client.hello else []
        return tuple(dict.fromkeys([*known, *found]))

    def _opened(self, port: SerialPort) -> None:
        self.port, self.path = port, self._line.stable(port.path)
        self._loop.on_readable(port.fd, self._readable, "mcu port")
        self.client.opened(self._clock.mono_ns())
        self._after()

    def _readable(self) -> None:
        assert self.port is not None
        try:
            data = self.port.read()
        except Gone as error:
            self._closed(error)
            return
        self.client.receive(data, self._clock.mono_ns())
        self._after()

    def _send(self) -> None:
        out = bytes(self.client.exchange.out)
        self.client.exchange.out.clear()
        if out and self.port is not None:
            try:
                self.port.write(out)
            except Gone as error:
                self._closed(error)

    def _after(self) -> None:
        """Do what follows from any change of the client: send, tell, set the one timer."""
        self._send()
        client, now = self.client, self._clock.mono_ns()
        told, client.told = client.told, []
        for message in told:
            if message["type"] == "reset" and message["again"] is False:
                self._evidence = mcu_link.evidence(client.hello)
            for sighting in mcu_link.sightings(message):
                self._seen(sighting)
        if client.lease.acks > self._acks:
            self._acks = client.lease.acks
            self._attempts = 0
            self.margins.ttl_s = self.ttl_s
            self.margins.fed(now)
        self._tell_cycle()
        if client.state == "frozen" and not client.hello and len(self._line.candidates()) > 1:
            self._closed(ProbeError(f"{self.path}: {client.reason}", "is it another device? set [mcu] port"))
            return
        self._arm(now)

    def _tell_cycle(self) -> None:
        cycle = self.client.cycle
        if self._operators and cycle.state != "asked":
            if (cycle.number, cycle.state) != (self._operators, "confirmed"):
                self.going(False)
            self._operators = 0
        if self._waiting and cycle.state != "asked":
            for number, answer in self._waiting:
                known = number == cycle.number
                answer.put(f"{cycle.state} {cycle.detail}" if known else "refused another request came in between")
            self._waiting.clear()

    def _arm(self, now: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.client.due_ns
        if due is not None:
            self._timer = self._loop.once(max(0.0, (due - now) / 1e9), self._due, "mcu")

    def _due(self) -> None:
        self._timer = None
        self.client.tick(self._clock.mono_ns())
        self._after()

    def _shut(self) -> None:
        if self.port is not None:
            self._loop.forget(self.port.fd)
            self.port.close()
            self.port = None

    def _closed(self, error: ProbeError) -> None:
        """Say why there is no port, and try again later."""
        self._shut()
        state: Link = "absent" if isinstance(error, Gone) else "opening"
        self.client.closed(state, error.reason, error.remedy, self._clock.mono_ns())
        wait = REOPEN_S[min(self._attempts, len(REOPEN_S) - 1)]
        self._attempts += 1
        if self._reopen is None:
            self._reopen = self._loop.once(wait, self._open, "mcu port")
        self._after()


def _nothing(_comes: bool) -> None:  # noqa: FBT001 - a state
    """Do nothing with it."""
