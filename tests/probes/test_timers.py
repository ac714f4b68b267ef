"""timers: decoding and reports."""

from __future__ import annotations

import sys
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.model import Data
from agent.probes import timers
from tests.probes.doubles import Tables, counts, decode_or_refuse, refuses_short

PROBE = probes.load("timers")
MS = 1_000_000
Callbacks = dict[int, bytes]


def callback(name: str, late_ms: tuple[int, ...] = (), **fields: int) -> bytes:
    """Give a struct timers_callback whose expiries were as late as this, and ran for 1 ms each."""
    late = [ms * MS for ms in late_ms]
    given = {"kind": 1, "late_max": max(late, default=0), "run_max": MS if late else 0, **fields}
    return timers.CALLBACK.pack(name=name, late=counts(*late), run=counts(*[MS] * len(late)), **given)


def tables(callbacks: Callbacks, other: bytes = b"") -> Tables:
    """Give the table of the probe, `other` being its last row, with the padding to a page that a mapping has."""
    size = timers.CALLBACK.size
    table = bytearray((timers.OTHER + 1) * size + 40)
    for function, value in callbacks.items():
        table[3 * function * size : (3 * function + 1) * size] = function.to_bytes(8, sys.byteorder) + value[8:]
    table[timers.OTHER * size : (timers.OTHER + 1) * size] = other or bytes(size)
    return Tables(arrays={"callbacks": table})


def lines(report: Data) -> list[Data]:
    """Give the rows of a report."""
    return cast("list[Data]", report["timers"])


@given(st.binary(max_size=2 * timers.EVENT.size))
def test_any_bytes_are_decoded_or_refused(record: bytes) -> None:
    """Any ring buffer record is a Sighting or a ValueError."""
    decode_or_refuse(PROBE, record)


def test_a_truncated_record_is_refused() -> None:
    """Each length below the struct's is a ValueError."""
    refuses_short(PROBE, timers.EVENT)


@given(what=st.integers(3, 1 << 32 - 1), kind=st.integers(0, 2))
def test_an_unknown_event_is_refused(what: int, kind: int) -> None:
    """An event number of a newer kernel side is a ValueError, not a guess."""
    with pytest.raises(ValueError, match="is not known"):
        timers.sighting(memoryview(timers.EVENT.pack(what=what, kind=kind)))


def test_a_late_timer() -> None:
    """Times are microseconds, ten times the budget is an error, and frames that are only our own tracing are left out."""
    frames = b"".join(name.ljust(40, b"\0") for name in (b"bpf_prog_12_hrtimer", b"__hrtimer_run_queues+0x1", b""))
    record = timers.EVENT.pack(
        t_ns=5, function=1, timer=0xFF00, value_ns=100 * MS, budget_ns=10 * MS, what=0, kind=1, cpu=3, pid=7, comm="a",
        name="tick_nohz_handler", address=(1, 2, 0xABC, *(0,) * 9), frame=frames.ljust(480, b"\0"),
    )  # fmt: skip
    found = timers.sighting(memoryview(record))
    assert (found.t_mono_ns, found.kind, found.subject, found.severity) == (5, "timer.late", "tick_nohz_handler", "error")
    assert found.data["late_us"] == 100_000
    assert found.data["stack"] == ["__hrtimer_run_queues+0x1", "0xabc"]


def test_a_storm_counts_starts() -> None:
    """A storm's value is a number of starts, not a time."""
    record = timers.EVENT.pack(value_ns=1000, budget_ns=1000, what=2, kind=0, function=0xF00)
    found = timers.sighting(memoryview(record))
    assert (found.kind, found.subject, found.severity) == ("timer.storm", "0xf00", "warning")
    assert (found.data["starts"], found.data["window_ms"]) == (1000, 100)


def test_options_become_the_ctl_struct() -> None:
    """Microseconds become nanoseconds, and the flag is on."""
    row = timers.CTL.unpack(timers.steer(timers.Options(hrtimer_late_us=200, run_us=300), Tables()))
    assert (row["enabled"], row["since_ns"], row["hrtimer_late_ns"], row["run_ns"]) == (1, 0, 200_000, 300_000)


def test_a_report_is_what_happened_between_two_snapshots() -> None:
    """Counters and histograms are differences; a quiet callback is left out; the busiest comes first."""
    before = timers.snapshot(tables({1: callback("tick", (1,)), 2: callback("quiet", (5,))}))
    after = timers.snapshot(tables({1: callback("tick", (1, 2, 4), cpus=0b101), 2: callback("quiet", (5,))}))
    (line,) = lines(timers.report(before, after))
    assert (line["function"], line["count"], line["cpus"]) == ("tick", 2, [0, 2])
    assert cast("Data", line["late_us"])["max"] == 4000


def test_two_static_functions_of_one_name_stay_apart() -> None:
    """A name that occurs twice gets its address."""
    found = timers.snapshot(tables({1: callback("fn", (1,)), 2: callback("fn", (2,)), 3: callback("", (3,))}))
    assert set(cast("Data", found["timers"])) == {"fn", "fn@0x2", "0x3"}


def test_a_callback_whose_entry_was_made_anew_counts_from_zero() -> None:
    """It gave way and came back between the snapshots: the new entry has nothing of the old, however large its counts are."""
    before = timers.snapshot(tables({1: callback("tick", (1,), starts=5, made_ns=7)}))
    after = timers.snapshot(tables({1: callback("tick", (1, 2), starts=6, made_ns=8)}, callback("", (1,), starts=5)))
    (line,) = lines(timers.report(before, after))
    assert (line["count"], line["starts"]) == (2, 6)


def test_what_gave_way_is_told_as_other() -> None:
    """Expiries that no callback in the table accounts for any more are one line; all of them together stay the same."""
    before = timers.snapshot(tables({1: callback("tick", (1,)), 2: callback("gone", (2, 3))}))
    after = timers.snapshot(tables({1: callback("tick", (1, 1))}, callback("", (2, 3, 4))))
    found = lines(timers.report(before, after))
    assert [(line["function"], line["count"]) for line in found] == [("tick", 1), ("other", 1)]
