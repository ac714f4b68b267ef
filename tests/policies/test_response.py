"""response: the table, the limits, and what they hold back."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.model import Decision, Finding, State
from agent.policies.response import LIMITS, RESPONSES, SUBJECTS, Response

NS = 1_000_000_000


def finding(second: float, state: State = "degraded", subject: str = "f", detector: str = "timer_late") -> Finding:
    """One finding."""
    return Finding(round(second * NS), detector, subject, state, f"{subject} is late", (1,))


def actions(decisions: list[Decision]) -> list[str]:
    """Give the names of the actions."""
    return [decision.action for decision in decisions]


def test_a_finding_and_its_end() -> None:
    """A late timer is logged and its evidence kept; the end is logged alone; the reason says what happened."""
    policy = Response()
    raised = list(policy.decide(finding(0)))
    assert actions(raised) == ["log", "snapshot"]
    assert raised[0].reason == "timer_late degraded: f is late"
    assert raised[1].finding == finding(0)
    assert actions(list(policy.decide(finding(60, "ok")))) == ["log"]


def test_states_without_a_row_are_logged() -> None:
    """Every finding is logged, whatever detector it comes from."""
    assert actions(list(Response().decide(finding(0, "unknown", detector="new")))) == ["log"]


def test_the_dearest_probe_goes_off() -> None:
    """The decision says which probe."""
    over = Finding(0, "probe_budget", "timers", "degraded", "too dear", (1,), {"probe": "timers"})
    decisions = list(Response().decide(over))
    assert actions(decisions) == ["log", "probe_off"]
    assert decisions[1].arguments == {"probe": "timers"}


def test_cool_down_is_by_subject() -> None:
    """No second snapshot of one subject within ten minutes, but of another one; the next one says what was left out."""
    policy = Response()
    for second in (0, 100, 200, 599):
        decisions = list(policy.decide(finding(second)))
        assert ("snapshot" in actions(decisions)) == (second == 0)
    other = list(policy.decide(finding(599, subject="g")))
    assert actions(other) == ["log", "snapshot"]
    assert other[1].reason == "timer_late degraded: g is late (3 earlier snapshot suppressed: cool-down 3)"


def test_what_was_held_back_is_said_once() -> None:
    """The count goes into the reason of the next decision for that action, and starts again at nothing."""
    policy = Response()
    for second in (0, 100, 200):
        list(policy.decide(finding(second)))
    reasons = [list(policy.decide(finding(second)))[-1].reason for second in (700, 1400)]
    assert reasons == [
        "timer_late degraded: f is late (2 earlier snapshot suppressed: cool-down 2)",
        "timer_late degraded: f is late",
    ]


def test_snapshots_have_a_global_budget() -> None:
    """Six at once, then six an hour, whatever the number of subjects; the refused ones are counted."""
    policy = Response()
    taken = [
        second for second in range(3600) if "snapshot" in actions(list(policy.decide(finding(second, subject=f"s{second}"))))
    ]
    assert taken[:6] == list(range(6))
    assert len(taken) == 6 + 5
    decisions = list(policy.decide(finding(7200, subject="late")))
    assert "suppressed: budget" in decisions[1].reason


def test_a_storm_of_findings_is_bounded() -> None:
    """Ten thousand subjects in a second: at most the burst of each action, and bounded memory."""
    policy = Response()
    decisions = [item for index in range(10_000) for item in policy.decide(finding(index / 10_000, subject=f"s{index}"))]
    assert actions(decisions).count("snapshot") == LIMITS["snapshot"].burst
    assert actions(decisions).count("log") <= LIMITS["log"].burst + 1
    assert len(policy._last) <= SUBJECTS


def test_every_action_of_the_table_has_a_limit() -> None:
    """A row cannot name an action whose budget nobody set."""
    assert {action for row in RESPONSES.values() for action in row} <= set(LIMITS)


@given(
    st.lists(
        st.tuples(st.integers(0, 10**6), st.sampled_from(["a", "b"]), st.sampled_from(sorted({key[0] for key in RESPONSES})))
    )
)
def test_budgets_hold_for_any_history(history: list[tuple[int, str, str]]) -> None:
    """For any times (also backwards) no action runs more often than burst + rate x span, and never twice within a cool-down."""
    policy = Response()
    done: dict[str, list[int]] = {}
    for second, subject, detector in history:
        for decision in policy.decide(finding(second, "critical", subject, detector)):
            done.setdefault(decision.action, []).append(second)
    span = max((second for second, _, _ in history), default=0)
    for action, times in done.items():
        assert len(times) <= LIMITS[action].burst + LIMITS[action].per_hour * span / 3600 + 1
