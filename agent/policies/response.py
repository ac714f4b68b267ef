"""response: which finding calls for which action, how often at most.

Two tables: RESPONSES by (detector, state), LIMITS by action. What a limit holds back is counted, and said in the reason of the
next decision for that action.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from agent.model import Data, Decision, Finding

NS = 1_000_000_000
HOUR_S = 3600.0
SUBJECTS = 1024  # (action, subject) pairs whose cool-down is remembered; the oldest goes first

# A short fault leaves no trace but a snapshot taken at once, so timers, softirqs and interrupts have one from `degraded` on. A
# slow scheduler and a watched process that failed are common on a busy box: theirs waits for `critical`.
DEFAULT = ("log",)
RESPONSES: dict[tuple[str, str], tuple[str, ...]] = {
    ("timer_late", "degraded"): ("log", "snapshot"),
    ("timer_late", "critical"): ("log", "snapshot"),
    ("softirq_stall", "degraded"): ("log", "snapshot"),
    ("softirq_stall", "critical"): ("log", "snapshot"),
    ("irq_storm", "degraded"): ("log", "snapshot"),
    ("irq_storm", "critical"): ("log", "snapshot"),
    ("sched_latency", "critical"): ("log", "snapshot"),
    ("process_death", "critical"): ("log", "snapshot"),
    ("feed_missed", "critical"): ("log", "snapshot"),
    ("probe_budget", "degraded"): ("log", "probe_off"),
    ("probe_budget", "critical"): ("log", "probe_off"),
}


@dataclass(frozen=True, slots=True)
class Limit:
    """At most one in `cooldown_s` for one subject, and `burst` at once then `per_hour` for all together."""

    cooldown_s: float
    burst: int
    per_hour: float


LIMITS: dict[str, Limit] = {
    "log": Limit(0, 120, 1200),
    "snapshot": Limit(600, 6, 6),
    "probe_off": Limit(10, 10, 60),
}


@dataclass(slots=True)
class _Bucket:
    """A token bucket; starts full."""

    tokens: float
    filled_ns: int

    def take(self, limit: Limit, now_ns: int) -> bool:
        gained = max(0, now_ns - self.filled_ns) / NS * limit.per_hour / HOUR_S
        self.tokens = min(float(limit.burst), self.tokens + gained)
        self.filled_ns = max(self.filled_ns, now_ns)
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Response:
    """`ports.Policy`. Time is that of the findings."""

    def __init__(self) -> None:
        """Start with full budgets."""
        self._buckets: dict[str, _Bucket] = {}
        self._last: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._held: dict[str, Counter[str]] = {action: Counter() for action in LIMITS}

    def decide(self, finding: Finding) -> Iterator[Decision]:
        """Give the actions that `finding` calls for and the limits allow; the end of a finding is logged, too."""
        for action in RESPONSES.get((finding.detector, finding.state), DEFAULT):
            why = self._refusal(action, finding)
            if why:
                self._held[action][why] += 1
            else:
                yield Decision(finding.t_mono_ns, action, finding, self._reason(action, finding), _arguments(action, finding))

    def tick(self, now_ns: int) -> Iterable[Decision]:  # noqa: ARG002 - decides on findings alone
        """Do nothing: what a limit held back is not made up for."""
        return ()

    def _refusal(self, action: str, finding: Finding) -> str:
        """Give why `action` must not run now, nothing if it may; then it is charged."""
        limit, now = LIMITS[action], finding.t_mono_ns
        key = (action, f"{finding.detector}/{finding.subject}")
        last = self._last.get(key)
        if last is not None and now - last < limit.cooldown_s * NS:
            return "cool-down"
        if not self._buckets.setdefault(action, _Bucket(limit.burst, now)).take(limit, now):
            return "budget"
        self._last[key] = now
        self._last.move_to_end(key)
        if len(self._last) > SUBJECTS:
            self._last.popitem(last=False)
        return ""

    def _reason(self, action: str, finding: Finding) -> str:
        reason = f"{finding.detector} {finding.state}: {finding.summary}"
        held = self._held[action]
        if held:
            counts = ", ".join(f"{why} {count}" for why, count in sorted(held.items()))
            reason += f" ({held.total()} earlier {action} suppressed: {counts})"
            held.clear()
        return reason


def _arguments(action: str, finding: Finding) -> Data:
    """Give what the action needs besides the finding."""
    return {"probe": finding.data.get("probe", finding.subject)} if action == "probe_off" else {}
