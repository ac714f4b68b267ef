"""Restart budgets: at once, then ever later, never not at all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent.keeping.budget import BACKOFF_S, NS, Budget, Wait


def test_at_once_within_the_budget_then_the_table() -> None:
    """Pins the row of waits of a program that exits at once, up to the endless slow step."""
    budget, now, waits = Budget(2, 60), 0, []
    for _ in range(12):
        wait = budget.next(0, now)
        waits.append(wait)
        now += wait.delay_s * NS
    assert [wait.delay_s for wait in waits] == [0, 0, *BACKOFF_S, BACKOFF_S[-1], BACKOFF_S[-1]]
    assert [wait.slow for wait in waits] == [False] * 9 + [True] * 3


def test_a_run_as_long_as_the_window_begins_anew() -> None:
    """Pins the decay: what ran for the whole window is restarted at once again; one that ran for less is not."""
    budget = Budget(1, 10)
    assert budget.next(0, 0) == Wait()
    assert budget.next(0, NS) == Wait(1)
    assert budget.next(9 * NS, 11 * NS) == Wait(2)
    assert budget.next(10 * NS, 30 * NS) == Wait()


def test_restarts_that_are_far_apart_cost_nothing() -> None:
    """Pins the window: a crash now and then is always followed at once."""
    budget = Budget(3, 60)
    assert all(budget.next(25 * NS, number * 25 * NS) == Wait() for number in range(100))


def test_no_burst_means_no_immediate_restart() -> None:
    """Pins burst = 0, and a change of the limits."""
    budget = Budget(0, 60)
    assert budget.next(0, 0) == Wait(1)
    budget.change(5, 60)
    assert budget.next(61 * NS, 100 * NS) == Wait()


@given(st.integers(0, 20), st.floats(0.001, 1000), st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=60))
def test_a_window_never_holds_more_than_its_burst(burst: int, window_s: float, runs: list[tuple[int, int]]) -> None:
    """Pins for any sequence of runs: at most `burst` immediate restarts in a window, and a next try at all times."""
    budget, now, at_once = Budget(burst, window_s), 0, []
    for ran_s, pause_s in runs:
        now += (ran_s + pause_s) * NS
        wait = budget.next(ran_s * NS, now)
        assert 0 <= wait.delay_s <= BACKOFF_S[-1]
        if not wait.delay_s:
            at_once.append(now)
        now += wait.delay_s * NS
    for at in at_once:
        assert sum(at - window_s * NS < other <= at for other in at_once) <= burst
