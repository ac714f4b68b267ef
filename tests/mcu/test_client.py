"""The lease client alone, against a peer made of its own codec: what it does with answers that no right firmware gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from agent.mcu import messages
from agent.mcu.client import HELLO_MS, LeaseClient
from agent.mcu.exchange import SENDS, WAIT_MS
from agent.mcu.ttl import Bounds
from agent.mcu.wire import FLAG_REPEAT, Decoder, Frame, Phase, Result, Type, encode

MS = 1_000_000
BOUNDS = Bounds(1_000, 60_000)
HELLO = dict.fromkeys(messages.HELLO.fields, 0) | {"boot_nonce": 1, "token": 100, "proto_min": 1, "proto_max": 1, "reset": 1}
HELLO |= {"ttl_min_ms": 1_000, "ttl_max_ms": 60_000}


@dataclass
class Peer:
    """The other end, by hand: takes the client's bytes, and gives answers that a test chooses."""

    numbers: Iterator[int] = field(default_factory=lambda: count(7))
    now: int = 1_000 * MS

    def __post_init__(self) -> None:
        """Make the client."""
        self.client = LeaseClient(BOUNDS, lambda: next(self.numbers))
        self.decoder = Decoder()
        self.asked: list[Frame] = []

    def collect(self) -> list[Frame]:
        """Take what the client has sent."""
        frames = self.decoder.feed(bytes(self.client.exchange.out))
        self.client.exchange.out.clear()
        self.asked += frames
        return frames

    def answer(self, asked: Frame, type_: int, payload: bytes) -> None:
        """Answer one frame."""
        self.client.receive(encode(Frame(1, type_, asked.seq, 0, payload)), self.now)

    def hello(self, **fields: int) -> None:
        """Answer the HELLO that was asked."""
        asked = next(one for one in reversed([*self.asked, *self.collect()]) if one.type == Type.HELLO_ASK)
        known = messages.HELLO_ASK.unpack(asked.payload)
        self.answer(asked, Type.HELLO, messages.HELLO.pack(**(HELLO | {"nonce": known["nonce"]} | fields)))

    def open(self) -> None:
        """Go as far as a session, with STATUS and the log answered."""
        self.client.opened(self.now)
        self.hello()
        self.settle()

    def settle(self) -> None:
        """Answer STATUS and EVENTLOG until neither is asked."""
        while frames := [one for one in self.collect() if one.type in {Type.STATUS_ASK, Type.EVENTLOG_ASK}]:
            for one in frames:
                self.serve(one)

    def serve(self, one: Frame, result: int = Result.OK) -> None:
        """Answer a frame of any type; a LEASE with `result`."""
        if one.type == Type.STATUS_ASK:
            self.answer(one, Type.STATUS, bytes(messages.STATUS.size))
        elif one.type == Type.EVENTLOG_ASK:
            self.answer(one, Type.EVENTLOG, messages.EVENTLOG.pack(total=0, first=0, count=0))
        elif one.type == Type.LEASE:
            self.ack(result, token=0)
        else:
            self.hello(token=500)

    def ack(self, result: int = Result.OK, token: int | None = None, remaining_ms: int = 5_000) -> Frame:
        """Answer the LEASE that was asked."""
        self.collect()
        asked = next(one for one in reversed(self.asked) if one.type == Type.LEASE)
        token = messages.LEASE.unpack(asked.payload)["token"] + 1 if token is None else token
        fields = {"remaining_ms": remaining_ms, "next_token": token, "margin_ms": 1, "result": result, "phase": Phase.RUN}
        self.answer(asked, Type.ACK, messages.ACK.pack(**fields))
        return asked

    def leased(self) -> None:
        """Go as far as a lease."""
        self.open()
        assert self.client.renew(Phase.RUN, self.now)
        self.ack()
        assert self.client.state == "leased"

    def wait(self, ms: int) -> None:
        """Let time pass, ticking when something is due."""
        end = self.now + ms * MS
        while (due := self.client.due_ns) is not None and due <= end:
            self.now = max(self.now, due)
            self.client.tick(self.now)
            self.collect()
        self.now = end


def test_time_alone_renews_nothing() -> None:
    """Pins the point of it all: without `renew` no LEASE is ever sent, however long one waits; idle, nothing is due."""
    peer = Peer()
    peer.open()
    assert peer.client.due_ns is None
    peer.wait(3_600_000)
    peer.collect()
    assert [one for one in peer.asked if one.type == Type.LEASE] == []


def test_an_ack_must_bring_a_fresh_token() -> None:
    """Pins that an OK without a token, or with the one just used, is no renewal: it is asked again, then the peer is frozen."""
    for bad in (0, HELLO["token"]):
        peer = Peer()
        peer.open()
        peer.client.renew(Phase.RUN, peer.now)
        peer.ack(token=bad)
        assert (peer.client.state, peer.client.lease.acks) == ("hello", 0)
        assert peer.client.decoder.errors["frame"] == 1
        peer.wait(60_000)
        assert peer.client.state == "frozen"


def test_a_lost_answer_is_asked_for_with_the_same_number_and_token() -> None:
    """Pins repeats: same seq and token, marked, each after twice the time; then `frozen`."""
    peer = Peer()
    peer.open()
    start = peer.now
    peer.client.renew(Phase.RUN, peer.now)
    peer.collect()
    peer.wait(WAIT_MS << SENDS)
    sent = [one for one in peer.asked if one.type == Type.LEASE]
    assert len({(one.seq, one.payload) for one in sent}) == 1
    assert [one.flags & FLAG_REPEAT for one in sent[:SENDS]] == [0, 1, 1, 1, 1]
    assert peer.client.state == "frozen"
    assert peer.now - start < 4_000 * MS


def test_a_frozen_peer_is_asked_ever_more_slowly() -> None:
    """Pins that looking for a silent peer costs at most a wake-up every few seconds, and never ends."""
    peer = Peer()
    peer.client.opened(peer.now)
    peer.wait(3_600_000)
    peer.collect()
    hellos = {one.seq for one in peer.asked}
    assert 80 < len(hellos) < 3_600_000 / HELLO_MS[-1] + 5
    peer.client.opened(peer.now)
    peer.hello()
    assert peer.client.state == "hello"


def test_a_late_or_doubled_answer_is_counted() -> None:
    """Pins that only the answer to what is under way counts."""
    peer = Peer()
    peer.leased()
    asked = peer.asked[-1]
    token = peer.client.lease.token
    for _ in range(3):
        peer.answer(asked, Type.ACK, messages.ACK.pack(remaining_ms=9, next_token=4, margin_ms=1, result=0, phase=1))
    assert (peer.client.strays, peer.client.lease.token) == (3, token)


def test_a_renewal_that_met_a_reset_is_sent_after_hello() -> None:
    """Pins that a feed is not lost with the MCU's memory: HELLO, then the same renewal with the new token, once."""
    peer = Peer()
    peer.leased()
    peer.now += 60_000 * MS
    peer.client.renew(Phase.RUN, peer.now)
    peer.ack(Result.NO_SESSION, token=0)
    peer.hello(boot_nonce=2, token=500)
    asked = peer.ack()
    assert messages.LEASE.unpack(asked.payload)["token"] == 500
    assert peer.client.state == "leased"
    assert [one["again"] for one in peer.client.told if one["type"] == "reset"] == [False, True]


def test_a_peer_that_refuses_every_token_does_not_spin() -> None:
    """Pins that HELLO and LEASE do not chase each other: with a renewal each 10 ms for 20 s there are only a few of either."""
    peer = Peer()
    peer.leased()
    peer.asked.clear()
    for _ in range(2_000):
        peer.client.renew(Phase.RUN, peer.now)
        while frames := peer.collect():
            for one in frames:
                peer.serve(one, Result.BAD_TOKEN)
        peer.now += 10 * MS
        peer.client.tick(peer.now)
    assert peer.client.state in {"lost", "hello"}
    assert len([one for one in peer.asked if one.type == Type.HELLO_ASK]) <= 20
    assert len([one for one in peer.asked if one.type == Type.LEASE]) <= 40


def test_an_expired_lease_is_told_once() -> None:
    """Pins `lost` by our own clock, before the power goes: with why, the phase, and nothing left."""
    peer = Peer()
    peer.leased()
    peer.client.told.clear()
    peer.wait(5_000)
    assert peer.client.state == "lost"
    assert "required work" in peer.client.reason
    assert [(one["type"], one["left_s"]) for one in peer.client.told] == [("lost", 0.0)]
    assert peer.client.renew(Phase.RUN, peer.now)


def test_a_lease_goes_before_reports() -> None:
    """Pins that a STATUS which nobody answers does not hold up a renewal; it is asked again afterwards."""
    peer = Peer()
    peer.client.opened(peer.now)
    peer.hello()
    assert peer.collect()[-1].type == Type.STATUS_ASK
    peer.client.renew(Phase.RUN, peer.now)
    assert peer.collect()[-1].type == Type.LEASE
    peer.ack()
    assert peer.collect()[-1].type == Type.STATUS_ASK


def test_a_renewal_before_hello_is_answered_waits_for_it() -> None:
    """Pins that the first feed after a start is not lost."""
    peer = Peer()
    peer.client.opened(peer.now)
    assert peer.client.renew(Phase.RUN, peer.now) is False
    peer.hello()
    assert peer.collect()[-1].type == Type.LEASE


def test_the_port_that_goes_takes_the_session_with_it() -> None:
    """Pins `closed`: the state and remedy given, the loss told with what was left, and no renewal until HELLO."""
    peer = Peer()
    peer.leased()
    peer.client.told.clear()
    peer.client.closed("absent", "/dev/ttyUSB0: gone", "plug it in", peer.now)
    assert (peer.client.state, peer.client.remedy, peer.client.due_ns) == ("absent", "plug it in", None)
    assert peer.client.told[0]["left_s"] == 5.0
    assert peer.client.renew(Phase.RUN, peer.now) is False


def test_a_power_cycle_is_confirmed_only_if_it_was_asked() -> None:
    """Pins that a challenge to another nonce is not confirmed, and that the code is sent back as it came."""
    peer = Peer()
    peer.leased()
    peer.settle()
    peer.client.power_cycle(5_000, 10_000, 1, peer.now)
    asked = peer.collect()[-1]
    nonce = messages.POWER_CYCLE.unpack(asked.payload)["nonce"]
    peer.answer(asked, Type.CHALLENGE, messages.CHALLENGE.pack(nonce=nonce ^ 1, code=9, result=0))
    assert [one.type for one in peer.collect() if one.type == Type.CONFIRM] == []
    peer.client.power_cycle(5_000, 10_000, 1, peer.now)
    asked = peer.collect()[-1]
    nonce = messages.POWER_CYCLE.unpack(asked.payload)["nonce"]
    peer.answer(asked, Type.CHALLENGE, messages.CHALLENGE.pack(nonce=nonce, code=9, result=0))
    confirm = peer.collect()[-1]
    assert messages.CONFIRM.unpack(confirm.payload) == {"nonce": nonce, "code": 9}
    peer.answer(confirm, Type.CYCLE_ACK, messages.CYCLE_ACK.pack(nonce=nonce, in_ms=5_000, result=0))
    assert (peer.client.cycle.state, peer.client.cycle.detail) == ("confirmed", "power goes off in 5 s")


def test_a_status_tells_what_grew() -> None:
    """Pins that counters of errors are told by how much they grew, the first reading by itself."""
    peer = Peer()
    peer.leased()
    peer.settle()
    first = next(one for one in peer.client.told if one["type"] == "status")
    assert (first["first"], first["grown"]) == (True, {})
    peer.client.told.clear()
    peer.client.reports.ask_status(peer.now)
    fields = dict.fromkeys(messages.STATUS.fields, 0) | {"spi_timeouts": 3, "frames": 9}
    peer.answer(peer.collect()[-1], Type.STATUS, messages.STATUS.pack(**fields))
    assert (peer.client.told[0]["first"], peer.client.told[0]["grown"]) == (False, {"spi_timeouts": 3})


ANSWERS = st.tuples(
    st.sampled_from([*Type, 0x42]),
    st.binary(max_size=48) | st.integers(0, 48).map(bytes),
    st.booleans(),
)


@given(steps=st.lists(st.one_of(ANSWERS, st.binary(max_size=80), st.integers(0, 40_000)), max_size=40))
def test_whatever_comes_the_client_goes_on(steps: list[tuple[int, bytes, bool] | bytes | int]) -> None:
    """Pins bad input: any bytes, any payloads under a right CRC, any waits: no exception, bounded memory, HELLO still works."""
    peer = Peer()
    peer.open()
    for step in steps:
        if isinstance(step, bytes):
            peer.client.receive(step, peer.now)
        elif isinstance(step, int):
            peer.wait(step)
            peer.client.renew(Phase.RUN, peer.now)
        else:
            current = peer.client.exchange.current
            seq = current.seq if current is not None and step[2] else 1
            peer.client.receive(encode(Frame(1, step[0], seq, 0, step[1])), peer.now)
        peer.collect()
        assert len(peer.client.exchange.out) == 0
        assert len(peer.client.told) < 4 * len(steps) + 8
    peer.client.opened(peer.now)
    peer.hello()
    assert peer.client.state == "hello"
