"""What of a silence is the machine's fault."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.detectors._starvation import Totals, direct_s, starved_s

NONE = Totals(wait=0.0, run=0.0)
S = 1e6


@pytest.mark.parametrize(
    ("what", "now", "expected"),
    [
        ("idle", Totals(wait=0, run=1 * S), 0),
        ("its thread waited 7 of 10 s", Totals(wait=7 * S, run=2 * S), 7),
        ("8 threads of it shared one CPU: each waited 7/8", Totals(wait=70 * S, run=10 * S), 8.75),
        ("deadlocked, on the busiest machine", Totals(cpu_some=10 * S, wait=0, run=0), 5),
        ("all waited for the disk", Totals(io_full=6 * S, wait=0, run=0), 6),
        ("disk and memory at the same time are one time", Totals(io_full=6 * S, memory_full=5 * S, wait=0, run=0), 6),
        ("disk, then CPU", Totals(io_full=3 * S, wait=4 * S, run=1 * S), 7),
        ("more than there was", Totals(io_full=30 * S, wait=0, run=0), 10),
        ("counters that fell (another process)", Totals(wait=-5 * S, run=-5 * S), 0),
    ],
)
def test_ten_seconds(what: str, now: Totals, expected: float) -> None:
    """Each case of docs/watchdog.md."""
    assert starved_s(NONE, replace(now, at_ns=10 * 10**9), 10) == pytest.approx(expected), what


def test_without_its_own_wait_the_pressure_counts_whole() -> None:
    """A container whose tasks nobody may read: somebody waited for 6 of 10 s, and it may have been this one."""
    assert starved_s(Totals(), Totals(cpu_some=6 * S), 10) == 6
    assert direct_s(Totals(), Totals(cpu_some=6 * S), 10) == 0


def test_without_the_time_that_it_ran_the_wait_counts_as_it_is() -> None:
    """An older kernel's numbers."""
    assert starved_s(Totals(wait=0), Totals(wait=4 * S), 10) == 4


TOTALS = st.builds(Totals, *[st.floats(0, 1e12)] * 3, wait=st.none() | st.floats(0, 1e12), run=st.none() | st.floats(0, 1e12))


@given(TOTALS, TOTALS, st.floats(0, 1e6))
def test_never_more_than_the_time_and_never_less_than_nothing(before: Totals, now: Totals, elapsed: float) -> None:
    """Whatever counters say."""
    for found in (starved_s(before, now, elapsed), direct_s(before, now, elapsed)):
        assert 0 <= found <= elapsed
