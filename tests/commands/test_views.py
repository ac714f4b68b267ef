"""The pure parts of the views: tables, quantities, histograms, times, TOML."""

from __future__ import annotations

import io
import tomllib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import histogram
from agent.commands import _histogram, _table, timers
from agent.commands._screen import Screen, clean
from agent.commands._since import since
from agent.commands._store import family, matches
from agent.commands._toml import toml
from agent.errors import BadRequest
from agent.histogram import BUCKETS, Histogram
from agent.model import Data

WIDTHS = (0, 30, 24, 20)
COUNTS = st.lists(st.integers(0, 1 << 40), min_size=BUCKETS, max_size=BUCKETS)


def screen(width: int = 0, *, unicode: bool = True) -> Screen:
    """Give a screen without colour."""
    return Screen(io.StringIO(), io.StringIO(), tty=False, colour=False, unicode=unicode, width=width)


@pytest.mark.parametrize(("kind", "shown"), [("timer", "0"), ("hrtimer", "100 ns")])
def test_a_wheel_timer_in_its_jiffy_is_not_late(kind: str, shown: str) -> None:
    """Pins 0 for what lies in the first bucket of a timer_list, whose lateness comes in jiffies; an hrtimer's is told."""
    late: Data = {"p50": 0.1, "p99": 0.1, "max": 4000.0}
    row: Data = {"function": "f", "kind": kind, "count": 3, "late_us": late, "late_buckets": {"0": 2, "61": 1}, "run_us": late}
    lines = [*timers.view(screen(), [row], "head", 20)]
    assert f"p50 {'0' if kind == 'timer' else '127 ns'} " in lines[2]
    assert [cell.strip() for cell in lines[-1].split("  ") if cell][3] == shown


@given(st.text())
def test_clean_text_is_one_printable_line(text: str) -> None:
    """Pins that no control, format or surrogate character gets through, and that what can be printed does."""
    found = clean(text)
    assert found.isprintable() or all(char.isprintable() or char.isspace() for char in found)
    assert not {"\n", "\r", "\x1b", "\x9b", "\u202e"} & set(found)
    found.encode()
    assert not text.isprintable() or found == text


@given(COUNTS, st.integers(20, 200), st.booleans())
def test_a_histogram_fits_and_adds_up(counts: list[int], width: int, unicode: bool) -> None:  # noqa: FBT001 - drawn
    """Pins that every count is shown in its octave, and that lines stay within a terminal of 70 columns and more."""
    drawn = Histogram(
        tuple(counts), max(128, *(histogram.upper_edge(i) for i in range(BUCKETS) if counts[i])) if any(counts) else 0
    )
    assert sum(_histogram.octaves(drawn)) == drawn.count
    text = "\n".join(_histogram.draw(screen(width, unicode=unicode), "latency", drawn))
    rows = [line for line in text.splitlines() if " .. " in line]
    shown = [n for n in _histogram.octaves(drawn) if n]
    assert all(f"{n:,}" in text for n in shown)
    assert len(rows) >= len(shown)
    assert unicode or all(ord(char) < 128 or char == "…" for char in text)
    if width >= 70:
        assert all(len(line) <= width for line in rows)


def test_a_histogram_looks_like_this() -> None:
    """Pins the picture: octaves, bars to the eighth of a column, marks, and one line for a longer gap."""
    counts = [0] * BUCKETS
    counts[histogram.bucket(3_000)] = 80
    counts[histogram.bucket(5_000)] = 40
    counts[histogram.bucket(2_000_000)] = 1
    lines = _histogram.draw(screen(60), "run-queue latency", Histogram(tuple(counts), 2_000_000))
    assert lines == [
        "run-queue latency   121 samples",
        "  p50 3.07 us  p99 5.12 us  max 2 ms",
        "  2.05 us ..  4.1 us  80 ███████████████████████████████ p50",
        "   4.1 us .. 8.19 us  40 ███████████████▌ p99",
        "                   …",
        "  1.05 ms ..  2.1 ms   1 ▍ max",
    ]


def test_an_empty_histogram_says_so() -> None:
    """Pins that nothing measured is no picture of zeros."""
    assert _histogram.draw(screen(), "x", histogram.EMPTY) == ["x   no samples"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.09, "90 ns"),
        (3.07, "3.07 us"),
        (999.99, "1 ms"),
        (1050, "1.05 ms"),
        (2.5e6, "2.5 s"),
        (None, "-"),
        (True, "-"),
    ],
)
def test_microseconds(value: float | None, text: str) -> None:
    """Pins three digits and the unit that fits; what is not known is a dash, never 0."""
    assert _table.micros(value) == text


@pytest.mark.parametrize(
    ("value", "text"), [(3.5, "3.5 s"), (75, "1 min 15 s"), (11_220, "3 h 7 min"), (200_000, "2 d 7 h"), (None, "-"), (-1, "-")]
)
def test_durations(value: float | None, text: str) -> None:
    """Pins two units at most."""
    assert _table.duration(value) == text


@given(st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text()))
def test_no_quantity_raises(value: float | str | None) -> None:
    """Pins that a status may hold anything where a number is due."""
    for show in (_table.micros, _table.duration, _table.size, _table.number, _table.when):
        assert isinstance(show(value), str)


@given(st.lists(st.lists(st.text(max_size=30), min_size=3, max_size=3), max_size=5), st.integers(0, 120))
def test_tables_keep_their_columns(rows: list[list[str]], width: int) -> None:
    """Pins one line for each row, whatever is in the cells."""
    lines = _table.table(screen(width), ("A", "B", "C"), rows)
    assert len(lines) == len(rows) + 1
    assert all("\n" not in line for line in lines)


def test_a_narrow_table_leaves_out_what_can_be_spared() -> None:
    """Pins the order: spare columns go one by one, then the first column is cut."""
    row = ("tick_nohz_handler", "hrtimer", "1 ms", "2 ms")
    looks = {
        width: _table.table(screen(width), ("FUNCTION", "KIND", "p50", "p99"), [row], (1, 2))[1] for width in (0, 30, 24, 20)
    }
    assert looks == {
        0: "tick_nohz_handler  hrtimer  1 ms  2 ms",
        30: "tick_nohz_handler  1 ms  2 ms",
        24: "tick_nohz_handler  2 ms",
        20: "tick_nohz_han…  2 ms",
    }


@pytest.mark.parametrize(("text", "ago"), [("90s", 90), ("15m", 900), ("1h", 3600), ("2d", 172_800), (" 5 min ", 300)])
def test_since_in_words(text: str, ago: int) -> None:
    """Pins the short forms."""
    assert since(text, 1e9) == 1e9 - ago


@given(st.text())
def test_since_is_a_time_or_our_error(text: str) -> None:
    """Pins that anything else is refused with what would be allowed."""
    with suppress(BadRequest):
        assert isinstance(since(text, 1e9), float)


def test_since_in_iso() -> None:
    """Pins ISO 8601 with a zone."""
    assert since("2026-01-31T12:00:00Z", 0) == 1_769_860_800


@pytest.mark.parametrize(
    ("glob", "plain", "meant"),
    [
        ("timer.*", "timer", True),
        ("timer", "timer", True),
        ("timer.late", "timer.late", True),
        ("*.late", None, True),
        ("timer.storm", "timer.storm", False),
        ("tim", "tim", False),
        ("*", None, True),
    ],
)
def test_kinds_by_name_family_or_glob(glob: str, plain: str | None, meant: bool) -> None:  # noqa: FBT001 - a table
    """Pins what `--kind` means for the event timer.late, and what of it the store can choose by itself."""
    assert (family(glob), matches("timer.late", glob)) == (plain, meant)


TOML_VALUES = st.recursive(
    st.one_of(
        st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), TOML_VALUES, max_size=4))
def test_what_config_show_prints_is_toml(data: dict[str, object]) -> None:
    """Pins that the text reads back as the same data."""
    assert tomllib.loads(toml(data)) == data  # type: ignore[arg-type] # JSON values all
