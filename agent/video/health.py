"""Whether a decoder still does what it should: judged by its pictures, not by whether it complains. Pure: time is handed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from agent.video.steps import DEEPEST, Form

_USUAL, _SPARE = 12, 2


@dataclass(frozen=True, slots=True)
class Rules:
    """When a decoder is given up.

    One error proves nothing (a damaged packet is one), hence so many of the last so many. Silent is one that took more packets
    since its last picture than it lately does, and has been so for `silent_s`; or `silent_packets`, however quickly they came.
    """

    silent_packets: int = DEEPEST + 4
    silent_s: float = 0.1
    errors: int = 5
    errors_of: int = 10
    corrupt: float = 0.5
    corrupt_of: int = 20


class Health:
    """Of one open decoder, from its opening on."""

    def __init__(self, rules: Rules, now_ns: int, at_once: bool, patience_s: float) -> None:  # noqa: FBT001 - a fact
        """Take the rules. Before its first pictures it is given `patience_s`; one that does not answer at once always is."""
        self.pictures = 0
        self._rules = rules
        self._at_once = at_once
        self._patience_s = max(rules.silent_s, patience_s)
        self._usual: deque[int] = deque(maxlen=_USUAL)
        self._last_ns = now_ns
        self._inside = 0
        self._stale = False
        self._errors: deque[bool] = deque(maxlen=rules.errors_of)
        self._corrupt: deque[bool] = deque(maxlen=rules.corrupt_of)

    def packet(self, *, failed: bool) -> None:
        """Note that it was given a packet, and whether it refused it."""
        self._inside += not failed  # nothing is to be had of a damaged one
        self._errors.append(failed)

    def picture(self, now_ns: int, *, corrupt: bool, stale: bool) -> None:
        """Note a picture; `stale`: of a size that the active SPS does not admit."""
        self.pictures += 1
        self._usual.append(self._inside)
        self._inside = 0
        self._last_ns = now_ns
        self._stale |= stale
        self._corrupt.append(corrupt)

    def forgive(self, now_ns: int) -> None:
        """Begin anew: there is no better decoder to go to."""
        self._errors.clear()
        self._corrupt.clear()
        self._stale, self._inside, self._last_ns = False, 0, now_ns

    def verdict(self, now_ns: int, form: Form | None) -> str:
        """Give why it is to be given up, in one word; empty as long as it is not."""
        rules = self._rules
        if self._stale:
            return "geometry"
        if sum(self._errors) >= rules.errors:
            return "errors"
        if len(self._corrupt) == rules.corrupt_of and sum(self._corrupt) > rules.corrupt * rules.corrupt_of:
            return "corrupt"
        return "silent" if self._silent(now_ns, form) else ""

    def _silent(self, now_ns: int, form: Form | None) -> bool:
        """Judge by what is usual, once that is known: a decoder that runs gives a picture a packet, however deep it is."""
        steady = self._at_once and len(self._usual) == _USUAL
        most = max(self._usual) + _SPARE if steady else form.reorder if form else DEEPEST
        seconds = self._rules.silent_s if steady else self._patience_s
        late = self._inside > most and now_ns - self._last_ns > seconds * 1e9
        return late or (self._at_once and self._inside > self._rules.silent_packets)
