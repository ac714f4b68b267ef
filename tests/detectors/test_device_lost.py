"""device_lost and what is done about it (policies/revival): a device that goes, comes back, blinks, stays away."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from agent.detectors import device_lost
from agent.model import Decision, Event, Finding
from agent.policies.revival import BUDGET, Revival

NS = 1_000_000_000


@dataclass
class Port:
    """One device at 1-1.4 that serves `detector`."""

    held: set[str | None] = field(default_factory=set)
    now: int = 1000 * NS
    seq: int = 0
    found: list[Finding] = field(default_factory=list)
    decided: list[tuple[float, Decision]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make both."""
        self.detector = device_lost.make(device_lost.Options())
        self.policy = Revival(lambda name, _now: name in self.held)
        self.begun = self.now

    def happens(self, kind: str) -> None:
        """Have it go or come."""
        self.seq += 1
        data = {"port": "1-1.4", "what": "Acme Camera", "workload": "detector"}
        self._take(
            self.detector.see(Event("b", self.seq, self.now, 0.0, "agent", f"device.{kind}", "camera", "error", dict(data)))
        )

    def run(self, seconds: float) -> None:
        """Let time pass: a tick each 10 s, and an alarm whenever one of both wants it."""
        end = self.now + round(seconds * NS)
        while self.now < end:
            wanted = [due for one in (self.detector, self.policy) if (due := one.next_due_ns()) is not None]
            tick = (self.now // (10 * NS) + 1) * 10 * NS
            assert all(due > self.now for due in wanted), "an alarm that is overdue would spin"
            self.now = min([end, tick, *wanted])
            self._take(self.detector.tick(self.now))
            self._decide(self.policy.tick(self.now))

    def _take(self, findings: object) -> None:
        for finding in findings:  # type: ignore[attr-defined]
            self.found.append(finding)
            self._decide(self.policy.decide(finding))

    def _decide(self, decisions: object) -> None:
        self.decided += [((self.now - self.begun) / NS, one) for one in decisions]  # type: ignore[attr-defined]

    def states(self) -> list[str]:
        """Give the findings' states."""
        return [one.state for one in self.found]

    def times(self) -> list[float]:
        """Give when the port was reset."""
        return [at for at, _ in self.decided]


def test_a_device_that_vanishes_is_reset_and_comes_back() -> None:
    """R33: gone for 5 s is a finding, the port is reset at once; it ends when the device has been there for 10 s."""
    one = Port()
    one.happens("gone")
    one.run(6)
    assert one.states() == ["critical"]
    assert one.found[0].summary == "camera (Acme Camera) is gone from USB port 1-1.4 for 5 s"
    assert one.times() == [5.0]
    assert (one.decided[0][1].action, one.decided[0][1].arguments) == ("usb_reset", {"port": "1-1.4"})
    one.happens("back")
    one.run(11)
    assert one.states() == ["critical", "ok"]
    one.run(3600)
    assert len(one.decided) == 1


def test_a_device_that_stays_away() -> None:
    """Tried again after 30 s, 2 min, 8, 32 and then each hour, for ever; then it says what a person has to see to."""
    one = Port()
    one.happens("gone")
    one.run(5 * 3600)
    waits = [round(b - a) for a, b in zip(one.times(), one.times()[1:], strict=False)]
    assert waits[:6] == [30, 120, 480, 1920, 3600, 3600]
    assert one.decided[0][1].reason == one.found[0].summary
    assert one.decided[1][1].reason.endswith(", try 2: cable, hub or power?")
    assert one.states() == ["critical"]


def test_a_device_that_stays_away_for_months() -> None:
    """Pins that it is tried each hour for as long as it takes: the pause grows no further, and neither does a number."""
    one = Port()
    one.happens("gone")
    one.run(6)
    for _ in range(600):
        one.now += 3600 * NS
        one._decide(one.policy.tick(one.now))
    assert len(one.decided) == 601


def test_a_device_that_comes_and_goes() -> None:
    """R29: three short absences within a day are a finding that names cable, hub or power; no reset, it came back by itself."""
    one = Port()
    for _ in range(3):
        one.happens("gone")
        one.run(1)
        one.happens("back")
        one.run(3600)
    assert one.states() == ["degraded"]
    assert "3 times within a day: cable, hub or power" in one.found[0].summary
    assert one.decided == []
    one.run(86400)
    assert one.states() == ["degraded", "ok"]


def test_firmware_that_is_loaded_is_no_loss() -> None:
    """An accelerator that changes its identity at the first use is away for 2 s: nothing is said."""
    one = Port()
    one.happens("gone")
    one.run(2)
    one.happens("back")
    one.run(86400)
    assert (one.found, one.decided) == ([], [])


def test_no_port_is_reset_while_somebody_works_there() -> None:
    """A hold of its workload keeps the port as it is; when it is over the reset is due at the next tick."""
    one = Port(held={"detector"})
    one.happens("gone")
    one.run(600)
    assert (one.states(), one.decided) == (["critical"], [])
    one.held.clear()
    one.run(10)
    assert len(one.decided) == 1


@given(st.lists(st.tuples(st.sampled_from(["gone", "back"]), st.floats(0, 4000)), max_size=60))
def test_whatever_it_does_the_budget_holds(steps: list[tuple[str, float]]) -> None:
    """In no hour is a port reset more than six times."""
    one = Port()
    for kind, seconds in steps:
        one.happens(kind)
        one.run(seconds)
    times = one.times()
    assert all(later - earlier >= 3600 - 1e-3 for earlier, later in zip(times, times[BUDGET:], strict=False))
