"""One request at a time, sent again until it is answered: stop and wait. Pure: time in, bytes out."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, replace

from agent.mcu import wire
from agent.mcu.wire import FLAG_REPEAT, Frame, Type

NS_PER_MS = 1_000_000
WAIT_MS = 100  # for an answer; doubles with each repeat. The longest frame takes 5 ms at 115200 baud, 60 ms at 9600
SENDS = 5  # in all: 100 + 200 + 400 + 800 + 1600 ms, then the peer counts as frozen
WAITING = 8  # requests in the queue
_SEQS = 1 << 16


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked; `seq` is given when it is first sent."""

    type: Type
    payload: bytes
    seq: int = 0


class Exchange:
    """The request under way, and those that wait for it. `out` holds the bytes to send."""

    def __init__(self, seq: int) -> None:
        """Begin with the sequence number after `seq`."""
        self.out = bytearray()
        self.current: Request | None = None
        self.repeats = 0
        self._waiting: deque[Request] = deque(maxlen=WAITING)
        self._seq = seq
        self._sends = 0
        self.due_ns: int | None = None
        """When `tick` has something to do."""

    def ask(self, type_: Type, payload: bytes, now_ns: int, *, urgent: bool = False) -> None:
        """Send a request, or queue it behind the one under way; one of the same type that waits is replaced.

        One that is `urgent` waits for nothing: what is under way is asked again after it.
        """
        self._waiting = deque((one for one in self._waiting if one.type != type_), WAITING)
        if not urgent:
            self._waiting.append(Request(type_, payload))
        else:
            if self.current is not None:
                self._waiting.appendleft(self.current)
                self.current = None
            self._waiting.appendleft(Request(type_, payload))
        self.next(now_ns)

    def has(self, type_: Type) -> bool:
        """Whether such a request is under way or waits."""
        return any(one.type == type_ for one in (*self._waiting, *([self.current] if self.current else ())))

    def answered(self, frame: Frame) -> Request | None:
        """Give the request that `frame` answers, no longer under way; None if it answers nothing. `next` sends what waits."""
        current = self.current
        if current is None or frame.seq != current.seq:
            return None
        if frame.type not in {current.type | 0x80, Type.UNSUPPORTED}:
            return None
        self.current = self.due_ns = None
        return current

    def again(self, asked: Request, now_ns: int) -> None:
        """Ask once more what got an answer of no use, when its time is over: as if there had been none."""
        if self.current is None and self._sends:
            self.current = asked
            self.due_ns = now_ns + WAIT_MS * NS_PER_MS

    def next(self, now_ns: int) -> None:
        """Send what waits, if nothing is under way."""
        if self.current is None and self._waiting:
            self._seq = (self._seq + 1) % _SEQS
            self.current = replace(self._waiting.popleft(), seq=self._seq)
            self._sends = 0
            self._send(now_ns)

    def tick(self, now_ns: int) -> Request | None:
        """Send again what is due; give the request that was sent often enough in vain."""
        if self.due_ns is None or now_ns < self.due_ns or self.current is None:
            return None
        if self._sends < SENDS:
            self.repeats += 1
            self._send(now_ns)
            return None
        lost, self.current, self.due_ns = self.current, None, None
        return lost

    def clear(self) -> None:
        """Forget everything that is not answered."""
        self._waiting.clear()
        self.out.clear()
        self.current = self.due_ns = None

    def _send(self, now_ns: int) -> None:
        assert self.current is not None
        flags = FLAG_REPEAT if self._sends else 0
        frame = Frame(wire.PROTO_MAX, self.current.type, self.current.seq, flags, self.current.payload)
        # A leading delimiter ends what noise, or half of an earlier frame, has begun at the other end.
        self.out += b"\0" + wire.encode(frame)
        self.due_ns = now_ns + (WAIT_MS << self._sends) * NS_PER_MS
        self._sends += 1
