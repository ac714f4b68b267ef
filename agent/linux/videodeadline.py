"""A decoder in a thread of its own, each call with a deadline: a hang inside a library is an error, and costs the thread."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from agent.errors import DecoderFailed
from agent.ports import Decoder, Packet, Picture

DEADLINE_S = 1.0
"""Far above what a picture takes (53 ms for 1080p 4:4:4, 242 ms on a machine that is overloaded)."""
_LEAST_S, _TIMES, _CALLS = 0.2, 6, 25
"""Once so many calls are known, the deadline is so many times the longest one; not below 0.2 s, nor above what it was."""
_Result = Sequence[Picture] | Exception


class Deadlined:
    """`ports.Decoder`: another one, that need not come back. One that hangs is left alone; its thread ends when it is back."""

    def __init__(
        self,
        make: Callable[[], Decoder],
        seconds: float = DEADLINE_S,
        hung: Callable[[threading.Thread], None] = lambda _thread: None,
    ) -> None:
        """Open it, in that thread; `hung` is told of one that hangs. Raises what `make` does, or DecoderFailed (hang)."""
        self._seconds, self._hung = seconds, hung
        self._took: deque[float] = deque(maxlen=_CALLS)
        self._calls: queue.SimpleQueue[Callable[[Decoder], Sequence[Picture]] | None] = queue.SimpleQueue()
        self._results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._hangs = False
        work = (make, self._calls, self._results)
        self._thread = threading.Thread(target=_work, args=work, name="decoder", daemon=True)
        self._thread.start()
        self._result("opening")

    def decode(self, packet: Packet) -> Sequence[Picture]:
        """Take a packet. Raises DecoderFailed (hang) if that takes too long."""
        return self._call(f"packet {packet.serial}", lambda decoder: decoder.decode(packet))

    def collect(self) -> Sequence[Picture]:
        """Give what has become ready."""
        return self._call("collecting", lambda decoder: decoder.collect())

    def drain(self) -> Sequence[Picture]:
        """Give what is still inside."""
        return self._call("draining", lambda decoder: decoder.drain())

    def close(self) -> None:
        """Let go of it, once it comes back."""
        self._calls.put(None)

    def _call(self, what: str, call: Callable[[Decoder], Sequence[Picture]]) -> Sequence[Picture]:
        if self._hangs:
            raise DecoderFailed("hang", f"{what}: it hangs already", final=True)
        self._calls.put(call)
        return self._result(what)

    def _result(self, what: str) -> Sequence[Picture]:
        begun, deadline_s = time.monotonic(), self._deadline_s()
        try:
            result = self._results.get(timeout=deadline_s)
        except queue.Empty:
            self._hangs = True
            self._calls.put(None)
            self._hung(self._thread)
            raise DecoderFailed("hang", f"{what}: no answer within {deadline_s:.2f} s", final=True) from None
        self._took.append(time.monotonic() - begun)
        if isinstance(result, Exception):
            raise result
        return result

    def _deadline_s(self) -> float:
        if len(self._took) < _CALLS:
            return self._seconds
        return min(self._seconds, max(_LEAST_S, _TIMES * max(self._took)))


def _work(
    make: Callable[[], Decoder],
    calls: queue.SimpleQueue[Callable[[Decoder], Sequence[Picture]] | None],
    results: queue.SimpleQueue[_Result],
) -> None:
    """Open, then do one call after another until None comes, and close."""
    try:
        decoder = make()
    except Exception as error:  # noqa: BLE001 - it is raised in the other thread
        results.put(error)
        return
    results.put(())
    while (call := calls.get()) is not None:
        try:
            results.put(call(decoder))
        except Exception as error:  # noqa: BLE001 - likewise
            results.put(error)
    decoder.close()
