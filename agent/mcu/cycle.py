"""A power cycle on request: POWER_CYCLE, the MCU's challenge, CONFIRM. No stray or replayed frame cuts the power."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from agent.mcu import messages, wire
from agent.mcu.exchange import Exchange
from agent.mcu.wire import Result, Type

State = Literal["none", "asked", "confirmed", "refused", "unanswered"]


class PowerCycle:
    """The last one that was asked for: `state` and `detail` tell what became of it, `number` which it is."""

    def __init__(self, exchange: Exchange, nonce: Callable[[], int]) -> None:
        self.state: State = "none"
        self.detail = ""
        self.number = 0
        self._exchange, self._new_nonce = exchange, nonce
        self._nonce = 0

    def ask(self, delay_ms: int, off_ms: int, reason: int, now_ns: int) -> None:
        """Ask for it; `reason` is a number of ours that the MCU keeps in its log."""
        self._begin("asked", "")
        self._nonce = self._new_nonce()
        payload = messages.POWER_CYCLE.pack(nonce=self._nonce, delay_ms=delay_ms, off_ms=off_ms, reason=reason)
        self._exchange.ask(Type.POWER_CYCLE, payload, now_ns)

    def refuse(self, why: str) -> None:
        """Say that it cannot even be asked for."""
        self._begin("refused", why)

    def on_challenge(self, payload: bytes, now_ns: int) -> None:
        """Confirm, if the challenge is to what was asked. Raises ValueError."""
        found = messages.CHALLENGE.unpack(payload)
        if found["nonce"] != self._nonce:
            raise ValueError("CHALLENGE of something else")
        if found["result"] == Result.OK:
            self._exchange.ask(Type.CONFIRM, messages.CONFIRM.pack(nonce=self._nonce, code=found["code"]), now_ns)
        else:
            self.state, self.detail = "refused", wire.word(Result, found["result"])

    def on_ack(self, payload: bytes, _now_ns: int) -> None:
        """Take the last answer. Raises ValueError."""
        found = messages.CYCLE_ACK.unpack(payload)
        if found["nonce"] != self._nonce:
            raise ValueError("CYCLE_ACK of something else")
        if found["result"] == Result.OK:
            self.state, self.detail = "confirmed", f"power goes off in {found['in_ms'] / 1000:g} s"
        else:
            self.state, self.detail = "refused", wire.word(Result, found["result"])

    def unanswered(self, why: str) -> None:
        """Take in that no answer will come."""
        if self.state == "asked":
            self.state, self.detail = "unanswered", why

    def _begin(self, state: State, detail: str) -> None:
        self.state, self.detail = state, detail
        self.number += 1
