"""crash_loop: ends that repeat, however good each life looks; counted once, kept over restarts, forgotten when stable."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.detectors.crash_loop import CrashLoop, Options, make
from agent.errors import StoreError
from agent.model import Event, Finding
from tests.detectors.replay import NS, event, states

STABLE_S = Options().stable_s


class Story:
    """One workload and its detector."""

    def __init__(self, detector: CrashLoop | None = None) -> None:
        self.detector = detector or make(Options())
        self.second, self.pid, self.found = 100.0, 10, list[Finding]()
        self.last: list[Event] = []

    def see(self, kind: str, **data: object) -> None:
        """Show an event of the workload now."""
        self.last.append(event(self.second, kind, "vision", **data))
        self.found += self.detector.see(self.last[-1])

    def state(self, state: str, reason: str = "") -> None:
        """Tell a state."""
        pid = self.pid if state in ("starting", "running") else None
        self.see("workload.state", state=state, pid=pid, reason=reason, restarts=0, ready=True, status="")

    def crash(self, after: float, signal: int = 6) -> None:
        """End after some seconds, and be replaced."""
        self.second += after
        old, self.pid = self.pid, self.pid + 1
        self.see("workload.exit", pid=old, code=0, signal=signal, core=False, replaced_pid=self.pid, replaced_ms=2.0)
        self.second += 0.002

    def run(self, seconds: float) -> None:
        """Go on."""
        while seconds > 0:
            step = min(10.0, seconds)
            self.second += step
            seconds -= step
            self.found += self.detector.tick(round(self.second * NS))


def started() -> Story:
    """Give one that runs."""
    one = Story()
    one.state("running")
    return one


def test_four_ends_in_two_minutes_are_a_loop() -> None:
    """Three are not; the finding says how, and names the ends as its evidence."""
    one = started()
    for _ in range(3):
        one.crash(after=10)
    assert one.found == []
    one.crash(after=10)
    assert states(one.found) == [("vision", "critical")]
    assert one.found[0].data["cause"] == "crash_loop"
    assert one.found[0].summary == "vision: 4 ends within 30 s; the last was killed by signal 6"
    assert len(one.found[0].evidence) == 4


def test_a_crash_every_ninety_seconds_is_one_too() -> None:
    """It looks well to a check that runs each minute: the uptimes betray it."""
    one = started()
    for _ in range(4):
        one.crash(after=90)
    assert states(one.found) == [("vision", "critical")]


def test_a_stable_life_ends_it() -> None:
    """Five minutes without an end: ok, and counting begins anew."""
    one = started()
    for _ in range(4):
        one.crash(after=1)
    one.run(STABLE_S - 20)
    assert len(one.found) == 1
    one.run(30)
    assert states(one.found)[-1] == ("vision", "ok")
    for _ in range(3):
        one.crash(after=1)
    assert len(one.found) == 2


def test_now_and_then_is_no_loop() -> None:
    """Ten ends, each after ten minutes."""
    one = started()
    for _ in range(10):
        one.run(600)
        one.crash(after=1)
    assert one.found == []


def test_an_end_told_twice_counts_once() -> None:
    """The keeper tells anew what agentd may have missed while it was away."""
    one = started()
    for _ in range(3):
        one.crash(after=1)
    for again in [item for item in one.last if item.kind == "workload.exit"]:
        one.found += one.detector.see(again)
    assert one.found == []


def test_ordered_ends_do_not_count() -> None:
    """A stop is a state before it is an end."""
    one = started()
    for _ in range(6):
        one.state("stopping")
        one.crash(after=1)
        one.state("running")
    assert one.found == []


def test_given_up_by_its_parent() -> None:
    """The start limit of systemd was reached: the other cause, at once; a stop ends it."""
    one = started()
    one.state("failed", "start limit reached")
    assert one.found[0].data["cause"] == "gave_up"
    assert "start limit reached" in one.found[0].summary
    one.state("held")
    assert states(one.found)[-1] == ("vision", "ok")


def test_given_up_in_the_middle_of_a_loop() -> None:
    """The loop is over, and what is left is that nobody starts it again: an end, then the other cause."""
    one = started()
    for _ in range(4):
        one.crash(after=1)
    one.state("failed", "start limit reached")
    assert [(finding.state, finding.data.get("cause")) for finding in one.found] == [
        ("critical", "crash_loop"),
        ("ok", None),
        ("critical", "gave_up"),
    ]


def test_it_goes_on_after_a_restart_of_the_agent_or_the_machine() -> None:
    """Two ends before, two after the reboot: a loop."""
    one = started()
    one.crash(after=1)
    one.crash(after=1)
    kept = json.loads(json.dumps(one.detector.plain(0)))
    fresh = make(Options())
    fresh.restore(kept, 0)
    two = Story(fresh)
    two.pid = 900
    two.state("running")
    two.crash(after=1)
    two.crash(after=1)
    assert states(two.found) == [("vision", "critical")]


@pytest.mark.parametrize("data", [None, {}, {"schema": 1, "workloads": []}, {"schema": 1, "workloads": {"a": [{"key": 1}]}}])
def test_a_corrupt_file_is_one_error(data: Any) -> None:
    """It is set aside."""
    with pytest.raises(StoreError):
        make(Options()).restore(data, 0)


@given(st.lists(st.tuples(st.sampled_from(["crash", "run", "stop", "start", "fail"]), st.floats(0, 400)), max_size=60))
def test_any_history_alternates(steps: list[tuple[str, float]]) -> None:
    """Raised and ended in turn, and what is kept reads back."""
    one = started()
    for what, seconds in steps:
        match what:
            case "crash":
                one.crash(after=seconds)
            case "run":
                one.run(seconds)
            case "stop":
                one.state("stopped")
            case "start":
                one.state("running")
            case _:
                one.state("failed")
    found = [finding.state for finding in one.found]
    assert found == ["critical", "ok"] * (len(found) // 2) + ["critical"] * (len(found) % 2)
    make(Options()).restore(json.loads(json.dumps(one.detector.plain(0))), 0)
