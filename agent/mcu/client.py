"""The gateway's end of the lease: a state machine without clock and port. Time and bytes in, bytes and messages out.

    opened ─► hello ── ACK ─► leased ── expired, refused, port gone ─► lost
                │                │
                ├── no answer ───┴─► frozen          HELLO is asked on, slowly, in frozen and incompatible
                └── other versions ─► incompatible

A renewal is sent because all required work has reported, never because time has passed: `tick` only repeats what was not
answered, and asks HELLO of a peer that is not leased.
"""

from __future__ import annotations

from collections.abc import Callable

from agent.mcu import messages, wire
from agent.mcu.cycle import PowerCycle
from agent.mcu.exchange import SENDS, Exchange, Request
from agent.mcu.lease import ANEW, ASKED_MS, REFUSED, Lease, Link, expired
from agent.mcu.reports import Reports
from agent.mcu.ttl import AdaptiveTtl, Bounds
from agent.mcu.wire import PROTO_MAX, PROTO_MIN, Frame, Phase, Result, Type
from agent.model import Data

NS_PER_MS = 1_000_000
HELLO_MS = (2_000, 5_000, 10_000, 30_000)  # between attempts on a peer that does not answer, or speaks another version
FRESH_NS = 5_000 * NS_PER_MS  # so long a renewal that met a reset MCU may be sent anew: the work it stands for was just done
_VITAL = frozenset({Type.HELLO_ASK, Type.LEASE})  # an answer of no use to these is as good as none, to others it is let go


class LeaseClient:
    """`opened` and `closed` tell of the port; `exchange.out` are bytes to send, `told` messages for `agent.probes.mcu_link`."""

    def __init__(self, bounds: Bounds, nonce: Callable[[], int]) -> None:
        """Ask for a ttl within `bounds`; `nonce` gives 32 random bits."""
        self.state: Link = "absent"
        self.reason, self.remedy = "not looked for yet", ""
        self.lease = Lease()
        self.hello: dict[str, int] = {}
        """What the MCU said of itself last."""
        self.told: list[Data] = []
        self.strays = 0
        """Answers to nothing that is under way: doubled, late, or of a stuck sender."""
        self.decoder = wire.Decoder()
        self.exchange = Exchange(nonce() % (1 << 16))
        self.reports = Reports(self.exchange)
        self.cycle = PowerCycle(self.exchange, nonce)
        self.ttl = AdaptiveTtl(bounds)
        self._bounds, self._nonce = bounds, nonce
        self._hello_nonce = 0
        self._hello_due_ns: int | None = None
        self._hellos = 0
        self._greeted_ns = 0
        self._renewal: tuple[Phase, int] | None = None
        self._sent_ns = 0
        self._handlers: dict[Type, Callable[[bytes, int], None]] = {
            Type.HELLO_ASK: self._on_hello,
            Type.LEASE: self._on_ack,
            Type.STATUS_ASK: lambda payload, now: self.told.append(self.reports.on_status(payload, now)),
            Type.EVENTLOG_ASK: self.reports.on_log,
            Type.POWER_CYCLE: self.cycle.on_challenge,
            Type.CONFIRM: self.cycle.on_ack,
        }

    @property
    def due_ns(self) -> int | None:
        """When `tick` has something to do; None: bytes or a renewal come first."""
        expiry = self.lease.until_ns if self.state == "leased" else None
        return min((due for due in (self.exchange.due_ns, self._hello_due_ns, expiry) if due is not None), default=None)

    def opened(self, now_ns: int) -> None:
        """Begin with an open port."""
        self.decoder = wire.Decoder()
        self._hellos = 0
        self._set("hello", "waiting for its HELLO")
        self._ask_hello(now_ns)

    def closed(self, state: Link, reason: str, remedy: str, now_ns: int) -> None:
        """Take in that there is no port (`absent`, `opening`), or none any more."""
        self._drop(state, reason, remedy, now_ns)
        self._hello_due_ns = self._renewal = None

    def renew(self, phase: Phase, now_ns: int) -> bool:
        """Ask for the lease anew, as all required work has reported; False without a session to do it in.

        One that comes while HELLO is asked is sent after it. A second one before the ACK of the first waits for that ACK.
        """
        if self.lease.token or self.exchange.has(Type.HELLO_ASK):
            self._renewal = (phase, now_ns)
        if not self.lease.token:
            return False
        if not self.exchange.has(Type.LEASE):
            self._send_lease(now_ns)
        self.reports.renewed(now_ns)
        return True

    def power_cycle(self, delay_ms: int, off_ms: int, reason: int, now_ns: int) -> None:
        """Ask for a power cycle; `cycle` tells what became of it."""
        if self.lease.token:
            self.cycle.ask(delay_ms, off_ms, reason, now_ns)
        else:
            self.cycle.refuse(f"the link is {self.state}: {self.reason}")

    def receive(self, data: bytes, now_ns: int) -> None:
        """Take what came in; whatever it is, it is an answer, or counted."""
        for frame in self.decoder.feed(data):
            asked = self.exchange.answered(frame)
            if asked is None:
                self.strays += 1
                continue
            try:
                self._answer(asked, frame, now_ns)
            except ValueError:
                self.decoder.errors["frame"] += 1
                if asked.type in _VITAL:
                    self.exchange.again(asked, now_ns)
            self.exchange.next(now_ns)

    def tick(self, now_ns: int) -> None:
        """Do what is due."""
        lost = self.exchange.tick(now_ns)
        if lost is not None:
            self._silent(lost, now_ns)
        if self.state == "leased" and now_ns >= self.lease.until_ns:
            self._lose(*expired(self.lease.phase), now_ns)
        if self._hello_due_ns is not None and now_ns >= self._hello_due_ns:
            self._ask_hello(now_ns)

    def _set(self, state: Link, reason: str = "", remedy: str = "") -> None:
        self.state, self.reason, self.remedy = state, reason, remedy

    def _drop(self, state: Link, reason: str, remedy: str, now_ns: int) -> None:
        """Leave the session for `state`."""
        if self.state == "leased":
            self._lose(reason, remedy, now_ns)
        self.cycle.unanswered(reason)
        self.exchange.clear()
        self.lease.token = 0
        self._set(state, reason, remedy)

    def _lose(self, why: str, remedy: str, now_ns: int) -> None:
        """Be lost; that is told once."""
        was_leased = self.state == "leased"
        self._set("lost", why, remedy)
        if not was_leased:
            return
        left = max(0.0, self.lease.left_s(now_ns) or 0.0)
        phase = self.lease.phase.name.lower()
        self.told.append({"type": "lost", "t_mono_ns": now_ns, "why": why, "phase": phase, "left_s": round(left, 3)})

    def _ask_hello(self, now_ns: int) -> None:
        self._hello_due_ns = None
        self._greeted_ns = now_ns
        self._hello_nonce = self._nonce()
        self.lease.token = 0
        self.exchange.clear()
        ask = messages.HELLO_ASK.pack(
            nonce=self._hello_nonce,
            ttl_min_ms=self._bounds.min_ms,
            ttl_max_ms=self._bounds.max_ms,
            proto_min=PROTO_MIN,
            proto_max=PROTO_MAX,
        )
        self.exchange.ask(Type.HELLO_ASK, ask, now_ns)

    def _hello_later(self, now_ns: int) -> None:
        wait = HELLO_MS[min(self._hellos, len(HELLO_MS) - 1)]
        self._hellos += 1
        self._hello_due_ns = now_ns + wait * NS_PER_MS

    def _silent(self, lost: Request, now_ns: int) -> None:
        reason = f"no answer to {lost.type.name}, sent {SENDS} times"
        self._drop("frozen", reason, "reset the microcontroller; check cable, [mcu] port and baud", now_ns)
        self._hello_later(now_ns)

    def _answer(self, asked: Request, frame: Frame, now_ns: int) -> None:
        if frame.type == Type.UNSUPPORTED:
            found = messages.UNSUPPORTED.unpack(frame.payload)
            if asked.type in _VITAL:
                self._incompatible(found["proto_min"], found["proto_max"], asked.type.name, now_ns)
        else:
            self._handlers[asked.type](frame.payload, now_ns)

    def _incompatible(self, least: int, most: int, what: str, now_ns: int) -> None:
        ours = f"{PROTO_MIN}..{PROTO_MAX}"
        reason = f"it speaks protocol {least}..{most} and refuses {what}; this agent speaks {ours}"
        if self.state != "incompatible":
            version: Data = {"firmware": self.hello.get("firmware", 0), "proto_min": least, "proto_max": most}
            self.told.append({"type": "version", "t_mono_ns": now_ns, "supported": False, **version})
        self._drop("incompatible", reason, "update the firmware of the microcontroller, or this agent", now_ns)
        self._hello_later(now_ns)

    def _on_hello(self, payload: bytes, now_ns: int) -> None:
        found, before = messages.HELLO.unpack(payload), self.hello
        if found["nonce"] != self._hello_nonce:
            raise ValueError("HELLO of another question")
        self.hello = found
        if not found["token"] or found["proto_min"] > PROTO_MAX or found["proto_max"] < PROTO_MIN:
            self._incompatible(found["proto_min"], found["proto_max"], Type.HELLO_ASK.name, now_ns)
            return
        self._hellos = 0
        if found["boot_nonce"] != before.get("boot_nonce"):
            self.reports.forget()
            self._tell_hello(found, now_ns, again=bool(before))
        self.lease.token = found["token"]
        self.ttl.bounds = Bounds(found["ttl_min_ms"], max(found["ttl_min_ms"], found["ttl_max_ms"]))
        if self.state != "leased":
            self._set("hello", "no renewal yet: required work has not reported")
        if self._renewal and now_ns - self._renewal[1] <= FRESH_NS:
            self._send_lease(now_ns)
        self.reports.ask_all(now_ns)

    def _tell_hello(self, found: dict[str, int], now_ns: int, *, again: bool) -> None:
        self.told.append({"type": "version", "t_mono_ns": now_ns, "supported": True, **found})
        self.told.append({"type": "reset", "t_mono_ns": now_ns, "again": again, **found})

    def _send_lease(self, now_ns: int) -> None:
        assert self._renewal is not None
        phase, self._sent_ns = self._renewal[0], now_ns
        ttl = self.ttl.ms if phase is Phase.RUN else ASKED_MS[phase]
        payload = messages.LEASE.pack(ttl_ms=ttl, token=self.lease.token, phase=phase)
        self.exchange.ask(Type.LEASE, payload, now_ns, urgent=True)

    def _on_ack(self, payload: bytes, now_ns: int) -> None:
        found = messages.ACK.unpack(payload)
        result = Result(found["result"])  # ValueError: a refusal that we do not know
        if result in {Result.OK, Result.REPEATED}:
            if found["next_token"] in {0, self.lease.token}:
                raise ValueError("ACK without a fresh token")
            self._renewed(found, now_ns)
            return
        self.lease.refused += 1
        self.lease.token = found["next_token"] if result is Result.EXHAUSTED else self.lease.token
        if result in ANEW and now_ns - self._greeted_ns > FRESH_NS:
            self._ask_hello(now_ns)
            return
        reason, remedy = REFUSED.get(result, (f"the microcontroller refuses the lease: {result.name.lower()}", ""))
        self._lose(reason, remedy, now_ns)
        self._renewal = None
        if result in ANEW or result is Result.CYCLING:
            self.lease.token = 0
            self._hello_later(now_ns)

    def _renewed(self, found: dict[str, int], now_ns: int) -> None:
        lease, sent = self.lease, self._sent_ns
        if lease.renewed_ns and self.state == "leased" and lease.phase is Phase.RUN:
            self.ttl.learn((sent - lease.renewed_ns) / NS_PER_MS)
        lease.token = found["next_token"]
        lease.phase = Phase(min(found["phase"], max(Phase)))
        lease.margin_ms = found["margin_ms"]
        lease.granted_ms = found["remaining_ms"]
        lease.until_ns = sent + found["remaining_ms"] * NS_PER_MS
        lease.renewed_ns = sent
        lease.acks += 1
        self._set("leased")
        newer = self._renewal is not None and self._renewal[1] > sent
        if newer:
            self._send_lease(now_ns)
        else:
            self._renewal = None
