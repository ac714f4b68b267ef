"""The estimator behind `deadline`: widened fast, narrowed slowly, within its bounds; and what it keeps."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.detectors._adaptive import FLOOR_S, PHASES, Bounds, Estimate, Phase, bounds, restored
from agent.errors import StoreError
from tests.detectors import traces

RUN = Bounds(first_s=10, floor_s=2, ceiling_s=50, backoff_s=10)
INTERVALS = st.lists(st.floats(0, 200), max_size=80)


def learned(*intervals: float) -> Estimate:
    """Give an estimate that has seen these."""
    one = Estimate()
    for interval in intervals:
        one.learn(interval, RUN)
    return one


def test_it_falls_from_the_start_value_by_a_power_of_time() -> None:
    """Quick at first, ever slower; by time, not by the number of beats: this is the table of docs/watchdog.md."""
    one, seen = learned(), list[float]()
    for seconds in (0, 60, 540, 3000, 39600):
        for _ in range(seconds):
            one.learn(1.0, RUN)
        seen.append(round(one.deadline_s(RUN), 1))
    assert seen == [10, 6.9, 4.9, 3.9, 3.1]
    assert learned(*[0.04] * 1500).deadline_s(RUN) == pytest.approx(6.2, abs=0.1)


def test_one_lost_beat_is_tolerated() -> None:
    """However regular the beats are, the deadline stays above twice their mean."""
    assert learned(*[4.0] * 400).deadline_s(RUN) >= 8


def test_a_long_interval_widens_at_once_and_is_remembered() -> None:
    """A pause of 4 s every five minutes among beats of 40 ms: after the first one the deadline is never below it."""
    one = learned(*[0.04] * 500000)
    assert one.deadline_s(RUN) < 4
    for _ in range(6):
        one.learn(4.0, RUN)
        assert one.deadline_s(RUN) >= 6.0
        for _ in range(7500):
            one.learn(0.04, RUN)
        assert one.deadline_s(RUN) > 5.0


def test_what_no_longer_happens_is_forgotten_as_slowly_as_it_was_watched() -> None:
    """A pause of 6 s once in the first hour is still allowed three hours later; a day later it is not."""
    one, seen = learned(*[1.0] * 3600, 6.0), list[float]()
    assert one.deadline_s(RUN) == 9
    for hours in (3, 21):
        for _ in range(hours * 3600):
            one.learn(1.0, RUN)
        seen.append(round(one.deadline_s(RUN), 1))
    assert seen[0] > 6 > seen[1] > 4


def test_a_miss_backs_off_no_further_than_to_the_start_value() -> None:
    """Doubled at each miss as TCP does; a workload that hangs each hour does not get more and more time."""
    one, seen = Estimate(count=9, held_s=2.0), list[float]()
    for _ in range(6):
        one.missed(RUN)
        seen.append(one.deadline_s(RUN))
    assert seen == [4.0, 8.0, 10.0, 10.0, 10.0, 10.0]


def test_a_late_beat_proves_that_the_miss_was_none() -> None:
    """It was silent for 20 s and lives: from now on 20 s are no miss."""
    one = learned(*[1.0] * 200)
    one.refuted(20)
    assert one.deadline_s(RUN) == 25


def test_starts_of_15_to_92_seconds_are_never_killed() -> None:
    """A health wait shorter than the start made a recovery that never succeeded: the recorded starts pass from the first on."""
    one, within = Estimate(), bounds("start", 10, 30, None)
    for took in (15, 92, 16, 15, 15, 15, 91, *traces.starts(), 15, 92):
        assert took < one.deadline_s(within)
        one.learn(took, within)


def test_a_start_that_misses_is_given_twice_as_long() -> None:
    """Nobody knows how long the first start of a new model takes: 2, 4, 8, at most 10 minutes."""
    one, within = Estimate(), bounds("start", 10, None, None)
    for expected in (240, 480, 600, 600):
        one.missed(within)
        assert one.deadline_s(within) == expected


@pytest.mark.parametrize(
    ("deadline_s", "ceiling_s", "wish_s", "first", "most"),
    [
        (10, None, None, 10, 86400),
        (10, 20, None, 10, 20),
        (30, 20, None, 20, 20),  # below the hardware's, whatever the configuration says
        (10, None, 30, 30, 30),  # a program that beats every 15 s says so itself
        (10, 20, 30, 20, 20),
        (10, None, 0.5, FLOOR_S, FLOOR_S),  # shorter than the keeper can tell
    ],
)
def test_the_bounds_of_work(
    deadline_s: float, ceiling_s: float | None, wish_s: float | None, first: float, most: float
) -> None:
    """WATCHDOG_USEC is the first value and the longest; nothing is longer than the hardware watchdog waits."""
    found = bounds("run", deadline_s, ceiling_s, wish_s)
    assert found.ceiling_s == most
    assert Estimate().deadline_s(found) == first


@given(INTERVALS, st.floats(0.001, 1000), st.none() | st.floats(0.1, 1000), st.none() | st.floats(0.01, 1000))
def test_the_deadline_is_always_within_its_bounds(
    intervals: list[float], first: float, ceiling: float | None, wish: float | None
) -> None:
    """For any history and configuration, in every phase; misses and refutations included."""
    phase: Phase
    for phase in PHASES:
        within, one = bounds(phase, first, ceiling, wish), learned(*intervals)
        one.missed(within)
        assert within.floor_s <= one.deadline_s(within) <= max(within.ceiling_s, within.floor_s)
        one.refuted(77)
        assert within.floor_s <= one.deadline_s(within) <= max(within.ceiling_s, within.floor_s)


@given(INTERVALS, st.floats(0, 100))
def test_it_widens_at_once_and_narrows_slowly(intervals: list[float], last: float) -> None:
    """One interval never narrows the deadline by more than half of what separates it from the target."""
    one = learned(*intervals)
    before = one.held_s or RUN.first_s
    one.learn(last, RUN)
    target = max(one.mean_s + max(one.mean_s, 4 * one.deviation_s), 1.5 * last)
    assert one.held_s >= target - 1e-6
    if last <= 60:
        assert one.held_s >= min(before, before + (target - before) / 2) - 1e-6


@given(INTERVALS)
def test_what_is_kept_reads_back(intervals: list[float]) -> None:
    """Through JSON, the same deadline."""
    one = learned(*intervals)
    again = restored(json.loads(json.dumps(one.plain())))
    assert again.deadline_s(RUN) == pytest.approx(one.deadline_s(RUN), abs=1e-3)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(st.sampled_from(["mean_s", "deviation_s", "count", "span_s", "held_s"]), part)
    ),
)


@given(JSON)
def test_what_is_corrupt_is_refused(value: Any) -> None:
    """Any JSON: an estimate within its range, or one error of ours."""
    try:
        one = restored(value)
    except StoreError as error:
        assert "deadline" in str(error)  # noqa: PT017 - either outcome is right
    else:
        assert 2 <= one.deadline_s(RUN) <= 50


def test_the_phases_are_those_of_the_type() -> None:
    """The table lists each."""
    assert get_args(Phase) == PHASES
