"""Cases: violations counted by subject, with hysteresis. What the detectors here share; each brings its own `Rule`.

    ok ── degraded_count within window_s, or a grave event ──► degraded
    degraded ── severe_count of severe_ratio x budget within window_s, or not quiet for sustained_s ──► critical
    degraded, critical ── quiet_s without a violation ──► ok

A state never falls but to ok. Bounded: SUBJECTS cases, the longest unseen one without a finding makes room; while all have one,
further subjects share the case `other`.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from agent import narrow
from agent.model import STATES, Data, Event, Finding, State

SUBJECTS = 256
EVIDENCE = 16  # as Finding promises
OTHER = "other"
NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Rule:
    """When a subject's state changes; times in seconds, ratios as multiples of the violated budget."""

    degraded_count: int
    window_s: float
    severe_ratio: float
    severe_count: int
    sustained_s: float
    quiet_s: float


@dataclass(frozen=True, slots=True)
class Violation:
    """One event as a detector judges it: `ratio` of value to budget, and the least state that it justifies alone."""

    subject: str
    ratio: float
    summary: str
    least: State = "ok"
    data: Data = field(default_factory=dict)


@dataclass(slots=True)
class Case:
    """What is remembered of one subject."""

    times: deque[int]
    severe: deque[int]
    evidence: deque[int]
    state: State = "ok"
    since_ns: int = 0
    last_ns: int = 0
    count: int = 0


def number(data: Data, key: str) -> float:
    """Give a number of an event, 0 if it has none of that name."""
    return narrow.number(data.get(key))


def word(data: Data, key: str, otherwise: str) -> str:
    """Give a non-empty text of an event, else `otherwise`."""
    value = data.get(key)
    return str(value) if isinstance(value, str | int) and value != "" else otherwise


def ratio(data: Data, key: str, budget: float = 0.0) -> float:
    """Give how many times the value exceeds the larger of the event's budget and `budget`; 1 if there is none."""
    limit = max(number(data, "budget_us"), budget)
    return number(data, key) / limit if limit else 1.0


def facts(event: Event, *keys: str) -> Data:
    """Give the named facts of an event, as data of a finding."""
    return {key: event.data[key] for key in keys if key in event.data}


class Cases:
    """All subjects of one detector."""

    def __init__(self, detector: str, rule: Rule) -> None:
        """Start without a case."""
        self._detector = detector
        self._rule = rule
        self._cases: OrderedDict[str, Case] = OrderedDict()

    def __len__(self) -> int:
        """How many subjects are remembered."""
        return len(self._cases)

    def add(self, event: Event, violation: Violation) -> tuple[Finding, ...]:
        """Count one violation; gives a finding if the state of its subject rises."""
        subject, case = self._case(violation.subject)
        now = event.t_mono_ns
        case.count += 1
        case.last_ns = max(case.last_ns, now)
        case.times.append(now)
        if event.seq:  # 0: shown to us alone, and not recorded
            case.evidence.append(event.seq)
        if violation.ratio >= self._rule.severe_ratio:
            case.severe.append(now)
        state = min(self._state(case, now), violation.least, case.state, key=STATES.index)
        if state == case.state:
            return ()
        if case.state == "ok":
            case.since_ns = now
        case.state = state
        data: Data = {"count": case.count, "ratio": round(violation.ratio, 1), **violation.data}
        return (Finding(now, self._detector, subject, state, violation.summary, tuple(case.evidence), data),)

    def tick(self, now_ns: int) -> Iterator[Finding]:
        """End the findings of quiet subjects, and forget subjects of which nothing counts any more."""
        quiet_ns = round(self._rule.quiet_s * NS)
        for subject, case in list(self._cases.items()):
            silent = now_ns - case.last_ns
            if case.state != "ok" and silent >= quiet_ns:
                yield self._end(subject, case, now_ns)
            if case.state == "ok" and silent >= max(quiet_ns, self._rule.window_s * NS):
                del self._cases[subject]

    def _end(self, subject: str, case: Case, now_ns: int) -> Finding:
        summary = f"quiet for {self._rule.quiet_s:g} s after {case.count} violation{'s' * (case.count != 1)}"
        finding = Finding(now_ns, self._detector, subject, "ok", summary, tuple(case.evidence), {"count": case.count})
        case.state = "ok"
        case.count = 0
        case.evidence.clear()
        return finding

    def _state(self, case: Case, now: int) -> State:
        since = now - round(self._rule.window_s * NS)
        severe = len(case.severe) == self._rule.severe_count and case.severe[0] >= since
        sustained = case.state != "ok" and now - case.since_ns >= self._rule.sustained_s * NS
        if severe or sustained:
            return "critical"
        return "degraded" if len(case.times) == self._rule.degraded_count and case.times[0] >= since else "ok"

    def _case(self, subject: str) -> tuple[str, Case]:
        if subject not in self._cases and len(self._cases) >= SUBJECTS:
            subject = self._make_room(subject)
        if subject not in self._cases:
            rule = self._rule
            self._cases[subject] = Case(
                deque(maxlen=rule.degraded_count), deque(maxlen=rule.severe_count), deque(maxlen=EVIDENCE)
            )
        self._cases.move_to_end(subject)
        return subject, self._cases[subject]

    def _make_room(self, subject: str) -> str:
        """Drop the longest unseen case without a finding; gives the name to use, `other` if there was none to drop."""
        idle = next((name for name, case in self._cases.items() if case.state == "ok" and name != OTHER), None)
        if idle is None:
            return OTHER
        del self._cases[idle]
        return subject


class CaseDetector:
    """`ports.Detector` over cases: each event of `kinds` is judged; one that is no violation passes by."""

    def __init__(self, name: str, kinds: frozenset[str], rule: Rule, judge: Callable[[Event], Violation | None]) -> None:
        """Start without an opinion."""
        self.name = name
        self.cases = Cases(name, rule)
        self._kinds = kinds
        self._judge = judge

    def see(self, event: Event) -> Iterable[Finding]:
        """Count one violation of its subject."""
        violation = self._judge(event) if event.kind in self._kinds else None
        return () if violation is None else self.cases.add(event, violation)

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """End what is quiet."""
        return self.cases.tick(now_ns)
