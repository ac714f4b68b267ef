"""device_lost: a camera or an accelerator that vanished from its USB port, or comes and goes.

    ok ── gone for GRACE_S ──► critical ── back for STABLE_S ──► ok
    ok ── BLINKS times gone within a day, each time back in time ──► degraded ── a day without ──► ok

A device that is reset, or that loads its firmware, is away for a moment: that is no finding, but it is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.detectors._cases import EVIDENCE, SUBJECTS, word
from agent.model import Data, Event, Finding, State

NAME = "device_lost"
KINDS = frozenset({"device.gone", "device.back"})
NS = 1_000_000_000
GRACE_S, STABLE_S = 5.0, 10.0
BLINKS, DAY_S = 3, 86400.0


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.device_lost]`: which devices must be there is `[[device]]`."""


@dataclass(slots=True)
class _Device:
    port: str = ""
    what: str = ""
    workload: str = ""
    gone_ns: int | None = None
    back_ns: int = 0
    state: State = "ok"
    blinks: deque[int] = field(default_factory=lambda: deque(maxlen=BLINKS))
    evidence: deque[int] = field(default_factory=lambda: deque(maxlen=EVIDENCE))


class DeviceLost:
    """`ports.Detector` and `ports.Timed`."""

    name = NAME

    def __init__(self) -> None:
        """Start without an opinion."""
        self._all: dict[str, _Device] = {}

    def see(self, event: Event) -> Iterable[Finding]:
        """Take one event in."""
        if event.kind not in KINDS or (event.subject not in self._all and len(self._all) >= SUBJECTS):
            return ()
        one = self._all.setdefault(event.subject, _Device())
        one.port, one.what, one.workload = (word(event.data, key, "") for key in ("port", "what", "workload"))
        if event.seq:
            one.evidence.append(event.seq)
        if event.kind == "device.back":
            return self._back(event.subject, one, event.t_mono_ns)
        if one.gone_ns is None:
            one.gone_ns = event.t_mono_ns
            one.blinks.append(event.t_mono_ns)
        return ()

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """Let time pass."""
        due = [(name, one) for name, one in self._all.items() if (at := self._due(one)) is not None and at <= now_ns]
        return [
            self._lost(name, one, now_ns) if one.gone_ns is not None else self._over(name, one, now_ns) for name, one in due
        ]

    def next_due_ns(self) -> int | None:
        """Give when one will have been away, or back, for long enough."""
        return min((due for one in self._all.values() if (due := self._due(one)) is not None), default=None)

    def _due(self, one: _Device) -> int | None:
        if one.gone_ns is not None:
            return None if one.state == "critical" else one.gone_ns + round(GRACE_S * NS)
        if one.state == "ok":
            return None
        return one.back_ns + round((STABLE_S if one.state == "critical" else DAY_S) * NS)

    def _back(self, name: str, one: _Device, now: int) -> list[Finding]:
        one.gone_ns, one.back_ns = None, now
        often = len(one.blinks) == BLINKS and now - one.blinks[0] < DAY_S * NS
        if one.state != "ok" or not often:
            return []
        return [self._finding(name, one, now, "degraded", f"was away {BLINKS} times within a day: cable, hub or power")]

    def _lost(self, name: str, one: _Device, now: int) -> Finding:
        assert one.gone_ns is not None
        away_s = (now - one.gone_ns) / NS
        return self._finding(name, one, now, "critical", f"is gone from USB port {one.port} for {away_s:.0f} s")

    def _over(self, name: str, one: _Device, now: int) -> Finding:
        finding = self._finding(name, one, now, "ok", f"is there, at USB port {one.port}")
        one.evidence.clear()
        return finding

    def _finding(self, name: str, one: _Device, now: int, state: State, what: str) -> Finding:
        one.state = state
        data: Data = {"port": one.port, "what": one.what, "workload": one.workload or None}
        called = f" ({one.what})" if one.what else ""
        return Finding(now, NAME, name, state, f"{name}{called} {what}", tuple(one.evidence), data)


def make(options: Options) -> DeviceLost:  # noqa: ARG001 - every detector is made in the same way
    """Make the detector."""
    return DeviceLost()
