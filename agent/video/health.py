"""Whether a decoder still does what it should: judged by its pictures, not by whether it complains. Pure: time is handed in."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from agent.video.steps import DEEPEST, Form


@dataclass(frozen=True, slots=True)
class Rules:
    """When a decoder is given up.

    One error proves nothing (a damaged packet is one), hence so many of the last so many. `silent_s` counts from the last
    picture, once more packets than the stream's own reordering are inside.
    """

    silent_packets: int = DEEPEST + 4
    silent_s: float = 0.25
    errors: int = 5
    errors_of: int = 10
    corrupt: float = 0.5
    corrupt_of: int = 20


class Health:
    """Of one open decoder, from its opening on."""

    def __init__(self, rules: Rules, now_ns: int, *, at_once: bool, patience_s: float) -> None:
        """Take the rules; `patience_s` replaces `silent_s` where it is longer; without `at_once` packets are not counted."""
        self.pictures = 0
        self._rules = rules
        self._at_once = at_once
        self._silent_ns = int(max(rules.silent_s, patience_s) * 1e9)
        self._last_ns = now_ns
        self._inside = 0
        self._stale = False
        self._errors: deque[bool] = deque(maxlen=rules.errors_of)
        self._corrupt: deque[bool] = deque(maxlen=rules.corrupt_of)

    def packet(self, *, failed: bool) -> None:
        """Note that it was given a packet, and whether it refused it."""
        self._inside += 1
        self._errors.append(failed)

    def picture(self, now_ns: int, *, corrupt: bool, stale: bool) -> None:
        """Note a picture; `stale`: of a size that the active SPS does not admit."""
        self.pictures += 1
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
        depth = form.reorder if form else DEEPEST
        late = self._inside > depth and now_ns - self._last_ns > self._silent_ns
        return "silent" if late or (self._at_once and self._inside > rules.silent_packets) else ""
