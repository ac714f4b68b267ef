"""revival: a lost device has its USB port reset at once, and again after 30 s, 2, 8, 32 min, then each hour until it is back.

At most BUDGET times within an hour for one port, whatever comes and goes; never while a hold is in force. After the first try
the reason says what a person has to look at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from agent.model import Decision, Finding

NS = 1_000_000_000
DETECTOR = "device_lost"
RETRY_S, RETRY_MOST_S, STEPS = 30.0, 3600.0, 4
BUDGET, WINDOW_S = 6, 3600.0
PORTS = 64


@dataclass(slots=True)
class _Port:
    times: deque[int] = field(default_factory=lambda: deque(maxlen=BUDGET))
    finding: Finding | None = None
    tries: int = 0
    next_ns: int = 0


class Revival:
    """`ports.Policy` and `ports.Timed`. `held(name, now_ns)` tells whether a workload (None: anything) is on hold."""

    def __init__(self, held: Callable[[str | None, int], bool]) -> None:
        """Start without a lost device."""
        self._held = held
        self._now_ns = 0
        self._ports: dict[str, _Port] = {}

    def decide(self, finding: Finding) -> Iterator[Decision]:
        """Take a finding in; one that is not about a device is passed over."""
        port = finding.data.get("port")
        if finding.detector != DETECTOR or not isinstance(port, str) or not port:
            return
        if port not in self._ports and len(self._ports) >= PORTS:
            return
        one = self._ports.setdefault(port, _Port())
        lost = finding.state == "critical"
        one.finding, one.tries, one.next_ns = finding if lost else None, 0, finding.t_mono_ns
        yield from self.tick(finding.t_mono_ns)

    def tick(self, now_ns: int) -> Iterator[Decision]:
        """Let time pass: try what is due."""
        self._now_ns = now_ns
        for port, one in self._ports.items():
            finding = one.finding
            if finding is not None and one.next_ns <= now_ns and not self._on_hold(finding, now_ns):
                spent = len(one.times) == BUDGET and now_ns - one.times[0] < WINDOW_S * NS
                if spent:
                    one.next_ns = one.times[0] + round(WINDOW_S * NS)
                    continue
                one.times.append(now_ns)
                one.tries += 1
                one.next_ns = now_ns + round(min(RETRY_S * 4 ** min(one.tries - 1, STEPS), RETRY_MOST_S) * NS)
                said = f", try {one.tries}: cable, hub or power?" if one.tries > 1 else ""
                yield Decision(now_ns, "usb_reset", finding, f"{finding.summary}{said}", {"port": port})

    def next_due_ns(self) -> int | None:
        """Give when the next try is due; what a hold keeps back is looked at by the next tick."""
        found = (one.next_ns for one in self._ports.values() if one.finding is not None and one.next_ns > self._now_ns)
        return min(found, default=None)

    def _on_hold(self, finding: Finding, now_ns: int) -> bool:
        workload = finding.data.get("workload")
        return self._held(workload if isinstance(workload, str) else None, now_ns)
