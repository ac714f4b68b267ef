"""The probes' own cost from their hooks' counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.owncost import cost, means

Counters = list[dict[str, int]]


def counters(*hooks: tuple[int, int, int]) -> Counters:
    """Give the counters of hooks as (runs, timed runs, ns of these)."""
    return [{"runs": runs, "timed_runs": timed, "timed_ns": ns} for runs, timed, ns in hooks]


def test_a_cost_that_grew_shows_in_its_own_interval() -> None:
    """Ten times dearer after a long cheap life: the mean is the interval's, not that since the load."""
    before = counters((64_000_000, 1_000_000, 100_000_000))
    after = counters((64_006_400, 1_000_100, 100_100_000))
    now = means([100.0], before, after)
    assert now == [1000.0]
    assert cost(now, before, after, 1.0) == pytest.approx((1000.0, 0.64))


def test_without_a_timed_run_the_last_known_mean_counts() -> None:
    """Fewer than 64 runs in an interval may all be untimed: what one costs is what it last did."""
    before, after = counters((640, 10, 2000), (0, 0, 0)), counters((650, 10, 2000), (0, 0, 0))
    now = means([200.0, None], before, after)
    assert now == [200.0, None]
    assert cost(now, before, after, 1.0) == pytest.approx((200.0, 0.0002))


def test_the_first_reading_knows_what_was_timed_since_the_load() -> None:
    """A pinned probe has run before this agent: its mean so far is what is known."""
    assert means([], [], counters((640, 10, 2000), (3, 0, 0))) == [200.0, None]


def test_a_hook_that_ran_and_was_never_timed_makes_the_cost_unknown() -> None:
    """Unknown is None, not 0; a hook that did not run does not matter; a quiet probe costs nothing."""
    old, new = counters((0, 0, 0), (0, 0, 0)), counters((5, 1, 500), (7, 0, 0))
    assert cost(means([], [], new), old, new, 1.0) == (None, None)
    new = counters((5, 1, 500), (0, 0, 0))
    assert cost(means([], [], new), old, new, 1.0) == pytest.approx((500.0, 0.00025))
    assert cost([None, None], old, old, 1.0) == (None, 0.0)
    assert cost([100.0, None], old, new, 0.0) == (100.0, None)


@given(st.lists(st.tuples(*[st.integers(0, 1 << 40)] * 3), min_size=1, max_size=6), st.data())
def test_a_mean_is_never_below_nothing(first: list[tuple[int, int, int]], data: st.DataObject) -> None:
    """Whatever grows by whatever: each mean is None or at least 0, and a share of the CPUs follows from known ones alone."""
    grown = [tuple(value + data.draw(st.integers(0, 1 << 40)) for value in hook) for hook in first]
    before, after = counters(*first), counters(*[(hook[0], hook[1], hook[2]) for hook in grown])
    found = means(means([], [], before), before, after)
    assert all(mean is None or mean >= 0 for mean in found)
    ns, share = cost(found, before, after, 1.0)
    assert share is None or share >= 0
    assert ns is None or ns >= 0
