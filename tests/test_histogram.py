"""The histogram arithmetic that every report rests on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agent import histogram
from agent.histogram import BUCKETS, EMPTY, Histogram

VALUES = st.integers(0, 1 << 45)


def of_values(values: list[int]) -> Histogram:
    """Fill a histogram as the kernel side does."""
    counts = [0] * BUCKETS
    for value in values:
        counts[histogram.bucket(value)] += 1
    return histogram.of(counts, max(values, default=0))


@given(VALUES)
def test_a_bucket_holds_its_value_and_errs_by_a_quarter_at_most(value: int) -> None:
    """A value lies at or below the upper edge of its bucket, and the edge overstates it by at most 25 %."""
    index = histogram.bucket(value)
    edge = histogram.upper_edge(index)
    if index < BUCKETS - 1:
        assert value <= edge
        assert edge <= max(127, value * 5 // 4)


@given(st.integers(0, BUCKETS - 2))
def test_buckets_touch_without_a_gap(index: int) -> None:
    """The value after a bucket's upper edge is the first of the next bucket."""
    assert histogram.bucket(histogram.upper_edge(index)) == index
    assert histogram.bucket(histogram.upper_edge(index) + 1) == index + 1


@given(st.lists(st.integers(0, 1 << 37), min_size=1), st.floats(0, 1))
def test_a_quantile_never_understates(values: list[int], q: float) -> None:
    """At least a share q of the values does not exceed the q-quantile, which never exceeds the exact maximum."""
    found = of_values(values).quantile_ns(q)
    assert sum(value <= found for value in values) >= q * len(values)
    assert found <= max(values)


@given(st.lists(VALUES), st.lists(VALUES))
def test_the_difference_of_two_readings_is_what_came_between(first: list[int], later: list[int]) -> None:
    """Cumulative histograms subtract to the interval's counts; its maximum is never below the true one's bucket."""
    before, after = of_values(first), of_values(first + later)
    interval = after.minus(before)
    assert interval.counts == of_values(later).counts
    assert not later or histogram.bucket(interval.max_ns) >= histogram.bucket(max(later)) or max(later) > 1 << 37


def wrapped(values: list[int], start: int) -> Histogram:
    """Give what the kernel's 32-bit buckets show if each stood at `start` before these values."""
    filled = of_values(values)
    return histogram.of([(start + n) & histogram.WORD for n in filled.counts], filled.max_ns)


@given(st.lists(VALUES), st.lists(VALUES), st.integers(histogram.WORD - 4, histogram.WORD))
def test_a_bucket_that_wraps_loses_nothing(first: list[int], later: list[int], start: int) -> None:
    """A 32-bit bucket that passed 2^32 between two readings gained what came between, and the others too."""
    assert wrapped(first + later, start).minus(wrapped(first, start)).counts == of_values(later).counts


@given(st.lists(VALUES), st.lists(VALUES, max_size=3))
def test_a_sum_that_fell_a_little_gained_nothing(kept: list[int], twice: list[int]) -> None:
    """A table read while an entry gives way may show it twice: the next reading is smaller, and no bucket gained 4 billion."""
    assert of_values(kept).minus(of_values(kept + twice)).count == 0


@given(st.lists(VALUES))
def test_plain_form_survives_json(values: list[int]) -> None:
    """`from_plain(plain(h)) == h`."""
    filled = of_values(values)
    assert histogram.from_plain(filled.plain()) == filled


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.dictionaries(st.text(), inner)))
def test_foreign_json_is_an_empty_histogram_or_a_valid_one(value: object) -> None:
    """What a peer sends instead of a histogram never raises."""
    assert histogram.from_plain(value).count >= 0  # type: ignore[arg-type]


def test_the_sum_of_nothing_is_empty() -> None:
    """`total([])` has no values and no maximum."""
    assert histogram.total([]) == EMPTY
    assert EMPTY.summary_us() == {"p50": 0.0, "p99": 0.0, "max": 0.0}
