"""Signs of life of one workload between two reports to agentd."""

from __future__ import annotations

from agent.model import Data, Json

MOST = 48  # intervals of one report; of more, the longest are kept. 64 workloads fit into one line
_NS_PER_MS = 1_000_000


class Beats:
    """Collects the intervals between signs of life; one that spans a change of phase or a restart is none."""

    def __init__(self) -> None:
        """Nothing was heard yet."""
        self._last_ns: int | None = None
        self._chained = False
        self._intervals: list[float] = []
        self._total: int | None = None
        self.work = 0

    def beat(self, now_ns: int) -> None:
        """Note a sign of life."""
        if self._chained and self._last_ns is not None:
            self._intervals.append(round((now_ns - self._last_ns) / _NS_PER_MS, 3))
            if len(self._intervals) > MOST:
                self._intervals.remove(min(self._intervals))
        self._last_ns = now_ns
        self._chained = True

    def worked(self, total: int) -> bool:
        """Note the running total of work done; whether it moved, which is a sign of life."""
        if total == self._total:
            return False
        self.work += total - self._total if self._total is not None and total > self._total else total
        self._total = total
        return True

    def cut(self) -> None:
        """Let the next interval begin with the next sign of life."""
        self._chained = False

    def forget(self) -> None:
        """Begin with another process."""
        self.cut()
        self._last_ns = self._total = None

    def take(self) -> Data:
        """Give what came since the last call; intervals in ms, `last_ns` null if this process was not heard yet."""
        intervals: list[Json] = list(self._intervals)
        self._intervals.clear()
        return {"last_ns": self._last_ns, "intervals_ms": intervals, "work": self.work}
