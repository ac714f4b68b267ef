"""health_check: three failures in a row, patience for a start and for a starved machine, two good ones to end it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.detectors.health_check import FAILURES, FAILURES_STARVED, HealthCheck, Options, make
from agent.model import Event, Finding
from tests.detectors.replay import event, states

PERIOD_S = 3.0


class Story:
    """One workload that is checked every three seconds."""

    def __init__(self, *, starved: bool = False) -> None:
        self.detector: HealthCheck = make(Options())
        self.second, self.found, self.starved = 0.0, list[Finding](), starved

    def see(self, item: Event) -> None:
        """Show an event."""
        self.found += self.detector.see(item)

    def started(self, pid: int) -> None:
        """Tell of a new process."""
        self.see(event(self.second, "workload.state", "server", state="running", pid=pid))

    def checks(self, *good: bool) -> None:
        """Check so many times."""
        for ok in good:
            self.second += PERIOD_S
            total = self.second * 1e6 if self.starved else 0.0
            self.see(
                event(
                    self.second,
                    "machine.pressure",
                    "psi",
                    cpu_some_us_total=total,
                    memory_full_us_total=0.0,
                    io_full_us_total=0.0,
                )
            )
            self.see(event(self.second, "workload.check", "server", ok=ok, ms=12.0, why="" if ok else "status 503"))


def test_three_failures_in_a_row() -> None:
    """One is degraded, three are critical; the reason is the check's; two good ones end it."""
    one = Story()
    one.checks(True, False, False, False, True, True)
    assert states(one.found) == [("server", "degraded"), ("server", "critical"), ("server", "ok")]
    assert one.found[1].summary == "server: status 503, 3 times in a row"
    assert one.found[1].data["cause"] == "health_check"


def test_a_single_failure_now_and_then_never_becomes_critical() -> None:
    """Every third check fails for an hour."""
    one = Story()
    one.checks(*[True, True, False] * 400)
    assert {state for _, state in states(one.found)} == {"degraded", "ok"}


def test_a_start_of_92_seconds_is_no_failure() -> None:
    """Model servers load for a minute and a half; only what fails after that counts."""
    one = Story()
    one.started(1)
    one.checks(*[False] * 30, True)
    assert one.found == []
    one.checks(False, False, False)
    assert states(one.found)[-1] == ("server", "critical")


def test_a_new_process_begins_anew() -> None:
    """After the restart that the finding led to, its start is waited for again; the finding ends with good checks alone."""
    one = Story()
    one.started(1)
    one.checks(True, False, False, False)
    one.started(2)
    one.checks(*[False] * 30)
    assert states(one.found) == [("server", "degraded"), ("server", "critical")]
    one.checks(True, True)
    assert states(one.found)[-1] == ("server", "ok")


def test_a_start_that_never_answers_is_found() -> None:
    """Two minutes, then three failures."""
    one = Story()
    one.started(1)
    one.checks(*[False] * 50)
    assert states(one.found)[-1] == ("server", "critical")


def test_a_starved_machine_is_given_twice_as_many() -> None:
    """The check itself runs on that machine."""
    one = Story(starved=True)
    one.checks(True, *[False] * (FAILURES_STARVED - 1))
    assert [state for _, state in states(one.found)] == ["degraded"]
    one.checks(False)
    assert FAILURES < FAILURES_STARVED
    assert [state for _, state in states(one.found)] == ["degraded", "critical"]


@given(st.lists(st.sampled_from(["good", "bad", "new"]), max_size=100))
def test_critical_never_without_three_failures_in_a_row(steps: list[str]) -> None:
    """For any history."""
    one, row, pid = Story(), 0, 1
    for step in steps:
        before = len(one.found)
        if step == "new":
            pid += 1
            one.started(pid)
        else:
            one.checks(step == "good")
            row = 0 if step == "good" else row + 1
        raised = [finding.state for finding in one.found[before:]]
        assert "critical" not in raised or row >= FAILURES


def test_what_is_stopped_is_not_expected_to_answer() -> None:
    """An operator stops it, or its parent gives it up: the finding ends, and however long it stays so there is none."""
    for state in ("stopped", "held", "failed"):
        one = Story()
        one.started(1)
        one.checks(True, False, False, False)
        one.see(event(one.second, "workload.state", "server", state=state, pid=None))
        one.checks(*[False] * 400)
        assert states(one.found) == [("server", "degraded"), ("server", "critical"), ("server", "ok")]
        assert one.found[-1].summary == f"it is {state}"
        one.started(2)
        one.checks(True, False)
        assert states(one.found)[-1] == ("server", "degraded")
