"""When a feed is due, and how near it came: pure, with time by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.watchdogs.feeding import AGENTD, EXCUSED_MOST_NS, NS, Gate, Margins


def gate(*names: str) -> Gate:
    """Give one that requires `names`, at time 0."""
    found = Gate(0)
    found.require(names, 0)
    return found


def test_a_feed_is_due_exactly_when_all_have_reported() -> None:
    """Pins the heart of it: the last report makes the feed due, and each feed wants a report of everybody again."""
    found = gate("a", "b")
    found.report("a", 1)
    found.report(AGENTD, 1)
    assert not found.take(1)
    assert found.missing(1) == ("b",)
    found.report("b", 2)
    assert found.take(2)
    assert not found.take(2)
    assert found.missing(2) == ("a", AGENTD, "b")


def test_agentds_own_loop_is_always_wanted() -> None:
    """Pins that workloads alone do not feed: an agentd that no longer ticks would supervise nothing."""
    found = gate("a")
    for t in range(5):
        found.report("a", t)
    assert not found.take(5)


def test_who_is_not_required_neither_feeds_nor_hinders() -> None:
    """Pins that reports of others are ignored, and that one that is required no more is not waited for."""
    found = gate("a")
    found.report("stranger", 1)
    found.report(AGENTD, 1)
    assert found.missing(1) == ("a",)
    found.require([], 1)
    assert found.take(1)


def test_a_hold_wants_agentd_alone() -> None:
    """Pins maintenance: feeding goes on without the work, not without agentd."""
    found = gate("a")
    found.hold = True
    assert not found.take(1)
    found.report(AGENTD, 1)
    assert found.take(1)


def test_an_excuse_ends() -> None:
    """Pins that a start or a starved machine counts as work only until then, and never for longer than the bound."""
    found = gate("a")
    found.report(AGENTD, 1)
    found.excuse("a", 10 * NS)
    assert found.take(9 * NS)
    found.report(AGENTD, 10 * NS)
    assert not found.take(10 * NS)
    found.excuse("a", 1 << 62)
    assert found.take(EXCUSED_MOST_NS - 1)
    found.report(AGENTD, EXCUSED_MOST_NS)
    assert not found.take(EXCUSED_MOST_NS)
    found.excuse("a", EXCUSED_MOST_NS + NS)
    assert not found.take(EXCUSED_MOST_NS), "renewing an excuse does not move its bound: only a report does"
    found.report("a", EXCUSED_MOST_NS)
    assert found.take(EXCUSED_MOST_NS)


@given(st.lists(st.tuples(st.sampled_from(["a", "b", AGENTD, "x"]), st.integers(0, 5)), max_size=60))
def test_never_without_everybody(reports: list[tuple[str, int]]) -> None:
    """Pins for any order of reports: between two feeds each required name reported at least once."""
    found, now, since = gate("a", "b"), 0, set[str]()
    for name, step in reports:
        now += step
        found.report(name, now)
        since.add(name)
        if found.take(now):
            assert {"a", "b", AGENTD} <= since
            since.clear()
        else:
            assert not {"a", "b", AGENTD} <= since


def test_the_margin_is_what_was_left() -> None:
    """Pins margin now, its p1 over many feeds (never told too well), and that it goes below zero."""
    found = Margins(60.0, 0)
    assert found.margin_p1_s() is None
    now = 0
    for gap in [10] * 99 + [50]:
        now += gap * NS
        found.fed(now)
    assert found.margin_s(now + 5 * NS) == 55
    assert found.margin_s(now + 70 * NS) == -10
    p1 = found.margin_p1_s()
    assert p1 is not None
    assert 47 <= p1 <= 50
    found.fed(now + 50 * NS)
    found.fed(now + 100 * NS)
    assert found.margin_p1_s() == pytest.approx(10, abs=0.1)


def test_the_margin_forgets_after_a_day() -> None:
    """Pins the window: one near miss does not stay in p1 for ever."""
    found = Margins(60.0, 0)
    found.fed(50 * NS)
    now = 50 * NS
    for _ in range(26 * 360):
        now += 10 * NS
        found.fed(now)
    p1 = found.margin_p1_s()
    assert p1 is not None
    assert p1 > 47
