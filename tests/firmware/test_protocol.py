"""What the microcontroller accepts, frame by frame: the simulator's port is spoken to directly, by bytes of the test's own."""

from __future__ import annotations

import os
import select
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agent.mcu import messages
from agent.mcu.messages import Payload
from agent.mcu.wire import Decoder, Frame, Phase, Reason, Reset, Result, Type, encode
from tests.mcu.sim import Sim, simulator, until


@dataclass
class Talk:
    """One end of the wire; `seq` is of the last frame."""

    fd: int
    sim: Sim
    seq: int = 1000
    token: int = 0
    decoder: Decoder = field(default_factory=Decoder)
    pending: list[Frame] = field(default_factory=list)

    def send(self, type_: Type, payload: bytes = b"", *, seq: int | None = None, ver: int = 1) -> int:
        """Send one frame, by default with the next number, which it gives."""
        self.seq = (self.seq + 1) % 65536 if seq is None else seq
        os.write(self.fd, encode(Frame(ver, type_, self.seq, 0, payload)))
        return self.seq

    def receive(self) -> Frame:
        """Give the next frame that comes."""
        while not self.pending:
            assert select.select([self.fd], [], [], 5)[0], "no answer"
            self.pending += self.decoder.feed(os.read(self.fd, 4096))
        return self.pending.pop(0)

    def ask(self, type_: Type, payload: bytes, answer: Payload, **more: int) -> dict[str, int]:
        """Send and give the answer's fields."""
        seq = self.send(type_, payload, **more)
        frame = self.receive()
        assert (frame.seq, frame.type) == (seq, type_ | 0x80)
        return answer.unpack(frame.payload)

    def hello(self, **fields: int) -> dict[str, int]:
        """Begin a session, by default with a nonce of its own."""
        known = {"nonce": self.seq * 7, "ttl_min_ms": 200, "ttl_max_ms": 60_000, "proto_min": 1, "proto_max": 1} | fields
        found = self.ask(Type.HELLO_ASK, messages.HELLO_ASK.pack(**known), messages.HELLO)
        assert found["nonce"] == known["nonce"]
        self.token = found["token"]
        return found

    def lease(self, ttl_ms: int = 5_000, phase: int = Phase.RUN, token: int | None = None, **more: int) -> dict[str, int]:
        """Renew, by default with the right token."""
        payload = messages.LEASE.pack(ttl_ms=ttl_ms, token=self.token if token is None else token, phase=phase)
        found = self.ask(Type.LEASE, payload, messages.ACK, **more)
        self.token = found["next_token"] or self.token
        return found

    def status(self) -> dict[str, int]:
        """Ask for STATUS."""
        return self.ask(Type.STATUS_ASK, b"", messages.STATUS)

    def log(self) -> list[dict[str, int]]:
        """Ask for the newest page of the log."""
        self.send(Type.EVENTLOG_ASK, messages.EVENTLOG_ASK.pack(first=0))
        return messages.entries(self.receive().payload)


@contextmanager
def talking(folder: Path, **options: int) -> Iterator[Talk]:
    """Run a simulator and open its port."""
    with simulator(folder, **({"boot_ms": 60_000, "ttl_min_ms": 200} | options)) as sim:
        fd = os.open(sim.link, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            yield Talk(fd, sim)
        finally:
            os.close(fd)


@pytest.fixture
def talk(tmp_path: Path) -> Iterator[Talk]:
    """Give a talk in a session."""
    with talking(tmp_path) as found:
        found.hello()
        yield found


def test_a_renewal_needs_the_newest_token(talk: Talk) -> None:
    """Pins the challenge: each ACK gives another token, and only that one renews."""
    first = talk.token
    found = talk.lease()
    assert (found["result"], found["phase"], found["remaining_ms"]) == (Result.OK, Phase.RUN, 5_000)
    assert found["next_token"] not in {0, first}
    assert talk.lease(token=first)["result"] == Result.BAD_TOKEN
    assert talk.lease(token=0)["result"] == Result.BAD_TOKEN
    assert talk.lease()["result"] == Result.OK
    assert talk.status()["bad_tokens"] == 2


def test_a_refusal_gives_no_token(talk: Talk) -> None:
    """Pins that whoever guesses wrong learns nothing to feed with."""
    assert talk.lease(token=talk.token ^ 1)["next_token"] == 0


def test_a_stuck_sender_cannot_feed(talk: Talk) -> None:
    """Pins that the very same frame is answered again and extends nothing: what is left only falls."""
    good = talk.lease()
    frame = encode(Frame(1, Type.LEASE, talk.seq, 0, messages.LEASE.pack(ttl_ms=5_000, token=1, phase=Phase.RUN)))
    left = []
    for _ in range(5):
        time.sleep(0.02)
        os.write(talk.fd, frame)
        found = messages.ACK.unpack(talk.receive().payload)
        assert (found["result"], found["next_token"]) == (Result.REPEATED, good["next_token"])
        left.append(found["remaining_ms"])
    assert left == sorted(left, reverse=True)
    assert left[-1] <= 5_000 - 5 * 20
    assert talk.status()["repeats"] == 5


def test_a_replay_of_older_frames_cannot_feed(talk: Talk) -> None:
    """Pins the sequence rule: an older number is stale, whatever it carries; a gap is counted; numbers wrap."""
    talk.lease()
    seq = talk.seq
    talk.lease()
    assert talk.lease(seq=seq)["result"] == Result.STALE
    assert talk.lease(seq=(seq + 11) % 65536)["result"] == Result.OK
    assert talk.status()["gaps"] == 9
    for step in (30_000, 60_000, 65_535, 3):
        assert talk.lease(seq=step)["result"] == Result.OK


def test_hello_does_not_feed(tmp_path: Path) -> None:
    """Pins that only a LEASE extends: a program that greets again and again loses its power."""
    with talking(tmp_path, boot_ms=400, off_ms=50) as talk:
        for _ in range(6):
            talk.hello()
            time.sleep(0.05)
        until(lambda: False in talk.sim.power(), 0.5)


def test_a_doubled_hello_keeps_its_session(talk: Talk) -> None:
    """Pins that a HELLO whose answer was late, asked again and answered twice, does not void the token that it gave."""
    token = talk.hello(nonce=5)["token"]
    assert talk.hello(nonce=5)["token"] == token
    assert talk.lease()["result"] == Result.OK
    assert talk.hello(nonce=5)["token"] == talk.token
    assert talk.hello(nonce=6)["token"] not in {0, token}


def test_without_hello_there_is_no_lease(tmp_path: Path) -> None:
    """Pins NO_SESSION: after a reset of the MCU nobody's token is good."""
    with talking(tmp_path) as talk:
        assert talk.lease(token=1)["result"] == Result.NO_SESSION


@pytest.mark.parametrize(
    ("asked", "held"),
    [((200, 60_000), (200, 60_000)), ((1, 2**32 - 1), (200, 120_000)), ((9_000, 8_000), (9_000, 9_000)), ((0, 0), (200, 200))],
)
def test_bounds_are_negotiated(asked: tuple[int, int], held: tuple[int, int], talk: Talk) -> None:
    """Pins that HELLO narrows the MCU's own bounds and never widens them, whatever is asked; and that they hold."""
    found = talk.hello(ttl_min_ms=asked[0], ttl_max_ms=asked[1])
    assert (found["ttl_min_ms"], found["ttl_max_ms"]) == held
    assert talk.lease(ttl_ms=1)["remaining_ms"] == held[0]
    assert talk.lease(ttl_ms=2**32 - 1)["remaining_ms"] == held[1]


def test_the_margin_is_told(talk: Talk) -> None:
    """Pins what the ACK says was left at the moment of renewal."""
    talk.lease(ttl_ms=3_000)
    time.sleep(0.1)
    assert 2_000 < talk.lease(ttl_ms=3_000)["margin_ms"] <= 2_900


def test_phases_other_than_run_end(tmp_path: Path) -> None:
    """Pins the absolute maximum: MAINT gets what is left of it, however often it is asked; RUN begins it anew."""
    with talking(tmp_path, maint_ms=500, maint_max_ms=700) as talk:
        talk.hello()
        assert talk.lease(phase=Phase.MAINT, ttl_ms=9_999)["remaining_ms"] == 500
        time.sleep(0.35)
        assert talk.lease(phase=Phase.MAINT, ttl_ms=9_999)["remaining_ms"] <= 350
        assert talk.lease(phase=Phase.UPDATE, ttl_ms=9_999)["remaining_ms"] == 9_999
        assert talk.lease(phase=Phase.MAINT, ttl_ms=9_999)["remaining_ms"] <= 350
        assert talk.lease(phase=Phase.UPDATE, ttl_ms=9_999)["result"] == Result.OK
        time.sleep(0.4)
        assert talk.lease(phase=Phase.MAINT)["result"] == Result.EXHAUSTED
        assert talk.lease(phase=Phase.RUN)["result"] == Result.OK
        assert talk.lease(phase=Phase.MAINT)["remaining_ms"] == 500
        assert talk.lease(phase=9)["result"] == Result.BAD_PHASE


def cycle(talk: Talk, **fields: int) -> dict[str, int]:
    """Ask for a power cycle; give the challenge."""
    known = {"nonce": 5, "delay_ms": 0, "off_ms": 100, "reason": 42} | fields
    return talk.ask(Type.POWER_CYCLE, messages.POWER_CYCLE.pack(**known), messages.CHALLENGE)


def confirm(talk: Talk, nonce: int, code: int) -> dict[str, int]:
    """Confirm it."""
    return talk.ask(Type.CONFIRM, messages.CONFIRM.pack(nonce=nonce, code=code), messages.CYCLE_ACK)


def test_a_power_cycle_needs_its_confirmation(tmp_path: Path) -> None:
    """Pins that POWER_CYCLE alone does nothing, that a wrong code does nothing, and that the right one does it once."""
    with talking(tmp_path, off_ms=100) as talk:
        talk.hello()
        assert confirm(talk, 5, 0)["result"] == Result.BAD_NONCE
        code = cycle(talk)["code"]
        assert confirm(talk, 5, code ^ 1)["result"] == Result.BAD_NONCE
        assert confirm(talk, 6, code)["result"] == Result.BAD_NONCE
        assert talk.sim.power() == [True]
        assert confirm(talk, 5, code)["result"] == Result.OK
        until(lambda: len(talk.sim.power()) == 3)
        talk.hello()
        assert confirm(talk, 5, code)["result"] == Result.BAD_NONCE
        assert [one["reason"] for one in talk.log()][:2] == [Reason.POWERED, Reason.REQUESTED]
        assert talk.log()[1]["detail"] == 42
        assert talk.hello()["power_reason"] == Reason.REQUESTED


def test_a_pending_cycle_cannot_be_put_off(tmp_path: Path) -> None:
    """Pins that renewals change nothing any more, and that a lost CYCLE_ACK can be asked for again."""
    with talking(tmp_path, off_ms=100) as talk:
        talk.hello()
        code = cycle(talk, delay_ms=600)["code"]
        assert confirm(talk, 5, code)["result"] == Result.OK
        assert talk.lease()["result"] == Result.CYCLING
        assert confirm(talk, 5, code)["result"] == Result.OK
        until(lambda: False in talk.sim.power(), 2)


def test_the_reason_for_power_is_told_until_it_runs(tmp_path: Path) -> None:
    """Pins what the merge of reset causes rests on: power-on, then nothing new once RUN was held, then an expiry."""
    with talking(tmp_path, boot_ms=5_000, off_ms=60) as talk:
        found = talk.hello()
        assert (found["reset"], found["power_reason"], found["boots"]) == (Reset.POWER_ON, Reason.MCU_START, 1)
        talk.lease(ttl_ms=300)
        assert talk.hello()["power_reason"] == Reason.NONE
        until(lambda: len(talk.sim.power()) == 3)
        found = talk.hello()
        assert (found["power_reason"], found["cycles"], found["expiries"]) == (Reason.LEASE_EXPIRED, 1, 1)


@pytest.mark.parametrize(
    "send",
    [
        lambda talk: talk.send(Type.LEASE, b"short"),
        lambda talk: talk.send(Type.HELLO_ASK, b""),
        lambda talk: talk.send(Type.STATUS),
        lambda talk: talk.send(Type.STATUS_ASK, ver=9),
        lambda talk: talk.send(Type.UNSUPPORTED, bytes(48)),
    ],
)
def test_what_it_does_not_know_is_answered(send: Callable[[Talk], int], talk: Talk) -> None:
    """Pins UNSUPPORTED with the protocol's range, for unknown types, short payloads and other versions; nothing else stops."""
    send(talk)
    frame = talk.receive()
    assert frame.type == Type.UNSUPPORTED
    assert messages.UNSUPPORTED.unpack(frame.payload)["proto_max"] == 1
    assert talk.lease()["result"] == Result.OK


def test_longer_payloads_are_for_newer_peers(talk: Talk) -> None:
    """Pins that trailing bytes are ignored."""
    payload = messages.LEASE.pack(ttl_ms=5_000, token=talk.token, phase=Phase.RUN) + b"of a later version"
    assert talk.ask(Type.LEASE, payload, messages.ACK)["result"] == Result.OK


def test_hello_is_understood_in_any_version(talk: Talk) -> None:
    """Pins that two that cannot talk can still say so: the answer has the range and no token."""
    ask = messages.HELLO_ASK.pack(nonce=1, ttl_min_ms=1, ttl_max_ms=1, proto_min=7, proto_max=9)
    found = talk.ask(Type.HELLO_ASK, ask, messages.HELLO, ver=9)
    assert (found["proto_min"], found["proto_max"], found["token"]) == (1, 1, 0)


def test_the_log_is_a_ring(tmp_path: Path) -> None:
    """Pins that the log keeps the newest 32 entries, page by page, newest first."""
    with talking(tmp_path, boot_ms=50, off_ms=10, off_max_ms=20) as talk:
        until(lambda: len(talk.sim.power()) > 40, 20)
        pages: list[dict[str, int]] = []
        total = 1
        while len(pages) < total:
            talk.send(Type.EVENTLOG_ASK, messages.EVENTLOG_ASK.pack(first=len(pages)))
            payload = talk.receive().payload
            total = messages.EVENTLOG.unpack(payload)["total"]
            pages += messages.entries(payload)
        assert total == 32
        assert {one["reason"] for one in pages} == {Reason.POWERED, Reason.LEASE_EXPIRED}
