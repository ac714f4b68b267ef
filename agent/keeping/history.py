"""The last numbered messages, for an agentd that was away."""

from __future__ import annotations

from collections import deque

from agent.keeping.messages import NUMBERED, Subscribe
from agent.model import Data

KEPT = 512


class History:
    """Numbers messages from 1 and keeps the last `KEPT` of them."""

    def __init__(self, keeper: str) -> None:
        """`keeper` names this run of the keeper, and with it the row of numbers."""
        self.keeper = keeper
        self.seq = 0
        self._kept: deque[Data] = deque(maxlen=KEPT)

    def add(self, message: Data) -> Data:
        """Give `message` its number and keep it, if it is of a numbered kind."""
        if message["type"] not in NUMBERED:
            return message
        self.seq += 1
        numbered: Data = {"type": message["type"], "seq": self.seq, **message}
        self._kept.append(numbered)
        return numbered

    def missed(self, wish: Subscribe) -> tuple[list[Data], int]:
        """Give what the subscriber has not seen, and how many of these are no longer here.

        One that knew no keeper has missed nothing; one that knew another has missed all of this one.
        """
        if wish.keeper is None:
            return [], 0
        since = min(wish.since, self.seq) if wish.keeper == self.keeper else 0
        want = self.seq - since
        kept = list(self._kept)[-want:] if want else []
        return kept, want - len(kept)
