"""irq: decoding and reports."""

from __future__ import annotations

import sys
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.layout import Value
from agent.model import Data
from agent.probes import irq
from tests.probes.doubles import Tables, counts, decode_or_refuse, refuses_short

PROBE = probes.load("irq")
US = 1000


def tables(lines: dict[int, tuple[str, tuple[int, ...]]]) -> Tables:
    """Give the maps of the probe: by line a name and run times in us; one in two was spurious."""
    rows = {}
    for line, (name, run_us) in lines.items():
        run = [value * US for value in run_us]
        row = irq.LINE.pack(name=name, count=len(run), spurious=len(run) // 2, run=counts(*run), run_max=max(run))
        rows[line.to_bytes(4, sys.byteorder)] = row
    return Tables(hashes={"lines": rows})


@given(st.binary(max_size=2 * irq.EVENT.size))
def test_any_bytes_are_decoded_or_refused(record: bytes) -> None:
    """Any ring buffer record is a Sighting or a ValueError."""
    decode_or_refuse(PROBE, record)


def test_a_truncated_record_is_refused() -> None:
    """Each length below the struct's is a ValueError."""
    refuses_short(PROBE, irq.EVENT)


def test_an_unknown_event_is_refused() -> None:
    """An event number beyond the table is a ValueError."""
    with pytest.raises(ValueError, match="is not known"):
        irq.sighting(memoryview(irq.EVENT.pack(what=3)))


def test_a_storm_and_a_spurious_line_count_interrupts() -> None:
    """Their values are numbers of interrupts within the window; how many nobody took is told for the spurious one alone."""
    fields: dict[str, Value] = {"value": 30_000, "budget": 20_000, "spurious": 29_000, "line": 36, "name": "eth0"}
    storm = irq.sighting(memoryview(irq.EVENT.pack(what=1, **fields)))
    spurious = irq.sighting(memoryview(irq.EVENT.pack(what=2, **fields)))
    assert (storm.kind, storm.subject, storm.data["count"], storm.data["window_ms"]) == ("irq.storm", "36 eth0", 30_000, 100)
    assert "spurious" not in storm.data
    assert (spurious.kind, spurious.data["spurious"]) == ("irq.spurious", 29_000)


def test_a_slow_handler() -> None:
    """Its value is a time; ten times the budget is an error."""
    found = irq.sighting(memoryview(irq.EVENT.pack(what=0, value=100_000 * US, budget=10_000 * US, name="mmc0")))
    assert (found.kind, found.severity, found.data["run_us"], found.data["budget_us"]) == ("irq.slow", "error", 100_000, 10_000)


def test_options_become_the_ctl_struct() -> None:
    """Microseconds become nanoseconds, a number stays one."""
    row = irq.CTL.unpack(irq.steer(irq.Options(run_us=100, storm_per_window=50), Tables()))
    assert (row["enabled"], row["run_ns"], row["storm_per_window"]) == (1, 100_000, 50)


def test_a_report_has_the_lines_that_fired() -> None:
    """Counts are the interval's, the busiest line first, quiet ones left out."""
    before = irq.snapshot(tables({1: ("quiet", (1,)), 2: ("eth0", (1, 1)), 3: ("mmc0", (1,))}))
    after = irq.snapshot(tables({1: ("quiet", (1,)), 2: ("eth0", (1, 1, 7)), 3: ("mmc0", (1, 1, 2, 2, 2))}))
    lines = cast("list[Data]", irq.report(before, after)["irq"])
    assert [(line["line"], line["name"], line["count"], line["spurious"]) for line in lines] == [
        (3, "mmc0", 4, 2),
        (2, "eth0", 1, 0),
    ]
    assert cast("Data", lines[1]["run_us"])["max"] == 7
