"""timer_race: decoding, contexts, and reports."""

from __future__ import annotations

import struct
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.layout import Value
from agent.model import Data
from agent.probes import _timer_stack, timer_race
from tests.probes.doubles import Tables, decode_or_refuse, refuses_short

PROBE = probes.load("timer_race")
HARD = (
    "enqueue_hrtimer+0x1/0x2",
    "hrtimer_start_range_ns+0x5/0x9",
    "rx_poll+0x7/0x8 [mine]",
    "asm_sysvec_x+0x1",
    "do_idle+0x2",
)


def record(*frames: str, count: int = 1, **fields: object) -> bytes:
    """Give a struct timer_race_found: CPU 1 acted with this stack against CPU 0."""
    names = b"".join(name.encode().ljust(timer_race.FRAME, b"\0") for name in frames)
    given: dict[str, object] = {
        "t_ns": 5,
        "count": count,
        "by_kernel": count,
        "timer": 0xF00,
        "function": 0xABC,
        "what": 2,
        "kind": 1,
        "sure": 1,
    }
    given |= {
        "name": "cb [mine]",
        "actor_t_ns": 9000,
        "other_t_ns": 2000,
        "actor_cpu": 1,
        "actor_pid": 7,
        "actor_comm": "insmod",
    }
    given |= {"actor_frame": names, "actor_address": (1,) * len(frames) + (0,) * (timer_race.FRAMES - len(frames))}
    return timer_race.FOUND.pack(**cast("dict[str, Value]", given | fields))


@given(st.binary(max_size=2 * timer_race.FOUND.size))
def test_any_bytes_are_decoded_or_refused(raw: bytes) -> None:
    """Any ring buffer record is a Sighting or a ValueError."""
    decode_or_refuse(PROBE, raw)


def test_a_truncated_record_is_refused() -> None:
    """Each length below the struct's is a ValueError."""
    refuses_short(PROBE, timer_race.FOUND)


@pytest.mark.parametrize("field", ["what", "kind", "sure"])
def test_an_unknown_number_is_refused(field: str) -> None:
    """A number of a newer kernel side is a ValueError, not a guess."""
    with pytest.raises(ValueError, match="is not known"):
        timer_race.sighting(memoryview(record(**{field: 99})))


def test_both_sides_are_told() -> None:
    """Pins the event: transition, callback with its module, distance in microseconds, the caller of the timer interface."""
    found = timer_race.sighting(memoryview(record("bpf_prog_1_x", *HARD, other_within=2)))
    assert (found.kind, found.subject, found.t_mono_ns) == ("timer.race", "cb [mine]", 5)
    assert (found.data["transition"], found.data["confirmed"], found.data["distance_us"]) == ("start_running", "kernel", 7.0)
    actor, other = cast("Data", found.data["actor"]), cast("Data", found.data["other"])
    assert (actor["cpu"], actor["comm"], actor["symbol"], actor["context"]) == (
        1,
        "insmod",
        "rx_poll+0x7/0x8 [mine]",
        "hardirq",
    )
    assert actor["stack"] == list(HARD)
    assert other["context"] == "hardirq"


@pytest.mark.parametrize(
    ("lines", "within", "pid", "context"),
    [
        (["f+0x1", "do_syscall_64+0x1"], 0, 9, "task"),
        (["f+0x1", "__do_softirq+0x1", "asm_sysvec_x+0x1"], 0, 9, "softirq"),
        (["f+0x1", "asm_sysvec_x+0x1", "handle_softirqs+0x1"], 0, 9, "hardirq"),
        (["f+0x1"], 1, 9, "softirq"),
        (["f+0x1"], 2, 9, "hardirq"),
        (["f+0x1"], 3, 9, "softirq"),
        ([], 0, 0, "hardirq"),
    ],
)
def test_contexts(lines: list[str], within: int, pid: int, context: str) -> None:
    """The timer callback that it happened in decides, else the innermost interrupt entry of the stack, else the idle task."""
    assert _timer_stack.context(lines, within, pid) == context


def test_without_names_there_are_addresses() -> None:
    """A kernel that cannot name functions (before 5.13) leaves addresses; the callback too."""
    found = timer_race.sighting(memoryview(record("", "", name="", actor_address=(0x10, 0x20, *(0,) * 8))))
    assert (found.subject, cast("Data", found.data["actor"])["stack"]) == ("0xabc", ["0x10", "0x20"])


def tables(*rows: bytes, starts: int = 0, looked: int = 0) -> Tables:
    """Give the maps of the probe on one CPU."""
    stats = [[timer_race.STATS.pack(runs=starts if hook.tracepoint == "timer_start" else 0)] for hook in timer_race.HOOKS]
    frees = [[timer_race.FREES.pack(looked=looked, skipped=1)]]
    found = {struct.pack("=QII", 1, 2, index): row for index, row in enumerate(rows)}
    return Tables(hashes={"found": found}, percpus={"stats": stats, "frees": frees})


def test_a_report_is_of_the_interval() -> None:
    """Counts are those of the interval; what came up before it is left out, and so is a row still being written."""
    before = timer_race.snapshot(tables(record(count=3), record(count=1), starts=10, looked=5))
    after = timer_race.snapshot(tables(record(count=7), record(count=1), record(t_ns=0), starts=25, looked=9))
    report = timer_race.report(before, after)
    assert [(row["count"], row["by_kernel"]) for row in cast("list[Data]", report["found"])] == [(4, 4)]
    assert report["seen"] == {"starts": 15, "expiries": 0, "cancels": 0, "deletes": 0, "frees": 4, "frees_skipped": 0}


def test_options_become_the_ctl_struct() -> None:
    """Milliseconds and seconds become nanoseconds; frees are not looked at unless somebody says so."""
    row = timer_race.CTL.unpack(timer_race.steer(timer_race.Options(stuck_s=3), Tables()))
    assert (row["enabled"], row["late_ns"], row["stuck_ns"], row["free_ns"]) == (1, 50_000_000, 3_000_000_000, 0)
