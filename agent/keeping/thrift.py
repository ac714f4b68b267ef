"""A limit on what a misbehaving workload can make the keeper say."""

from __future__ import annotations

from collections import deque

MOST, WINDOW_NS = 5, 10_000_000_000
_KEYS = 4096  # kept; there are a dozen kinds of notice for each of 64 workloads


class Thrift:
    """Lets `MOST` notices of one key pass in a window of 10 s, and counts the others."""

    def __init__(self) -> None:
        """Nothing was said yet."""
        self._said: dict[str, deque[int]] = {}
        self._kept_back: dict[str, int] = {}

    def allows(self, key: str, now_ns: int) -> bool:
        """Whether one more may pass now."""
        if len(self._said) >= _KEYS:
            self._said.clear()
            self._kept_back.clear()
        times = self._said.setdefault(key, deque(maxlen=MOST))
        if len(times) == MOST and now_ns - times[0] < WINDOW_NS:
            self._kept_back[key] = self._kept_back.get(key, 0) + 1
            return False
        times.append(now_ns)
        return True

    def kept_back(self, key: str) -> int:
        """Give how many did not pass since this was asked last."""
        return self._kept_back.pop(key, 0)
