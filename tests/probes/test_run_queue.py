"""run_queue: decoding, reading its arrays, reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.model import Data
from agent.probes import run_queue
from tests.probes.doubles import Tables, counts, decode_or_refuse, refuses_short

PROBE = probes.load("run_queue")
MS, S = 1_000_000, 1_000_000_000
ROWS = run_queue.OTHER + 1


@dataclass
class Kernel:
    """What the kernel side would hold."""

    processes: dict[int, bytes] = field(default_factory=dict)
    """By index; the key OTHER is the sum of what was evicted."""
    slots: dict[int, tuple[int, int, int]] = field(default_factory=dict)
    """By index: pid, state, since when (ns)."""
    now_ns: int = 0
    since_ns: int = 0

    def maps(self) -> Tables:
        """Give it as maps, with the padding to a page that a mapping has."""
        table = bytearray(ROWS * run_queue.PROCESS.size + 24)
        for index, row in self.processes.items():
            table[index * len(row) : (index + 1) * len(row)] = row
        slots = bytearray(32768 * run_queue.SLOT.size)
        for index, (pid, state, t_ns) in self.slots.items():
            low, high = t_ns >> 6 & (1 << 40) - 1, t_ns >> 46
            slot = run_queue.SLOT.pack(word=pid << 42 | state << 40 | low, high=high, cpu=1)
            slots[index * len(slot) : (index + 1) * len(slot)] = slot
        used = (0,) * 5 + (self.now_ns >> 26,) + (0,) * 2
        sets = bytearray(127 * run_queue.SET.size) + run_queue.SET.pack(key=(1 << 32 - 1,) * 8, used=used)
        ctl = run_queue.CTL.pack(enabled=1, since_ns=self.since_ns, blocked_ns=10 * S)
        return Tables(arrays={"processes": table, "slots": slots, "processes_sets": sets, "ctl": bytearray(ctl)})


def process(tgid: int, waits_ms: tuple[int, ...], **fields: int) -> bytes:
    """Give a struct run_queue_process."""
    waits = [ms * MS for ms in waits_ms]
    return run_queue.PROCESS.pack(tgid=tgid, comm=f"p{tgid}", wait=counts(*waits), max=max(waits, default=0), **fields)


def lines(report: Data) -> list[Data]:
    """Give the rows of a report."""
    return cast("list[Data]", report["processes"])


@given(st.binary(max_size=2 * run_queue.EVENT.size))
def test_any_bytes_are_decoded_or_refused(record: bytes) -> None:
    """Any ring buffer record is a Sighting or a ValueError."""
    decode_or_refuse(PROBE, record)


def test_a_truncated_record_is_refused() -> None:
    """Each length below the struct's is a ValueError."""
    refuses_short(PROBE, run_queue.EVENT)


def test_an_unknown_event_is_refused() -> None:
    """An event number beyond the table is a ValueError."""
    with pytest.raises(ValueError, match="is not known"):
        run_queue.sighting(memoryview(run_queue.EVENT.pack(what=2)))


def test_latency_names_the_waiting_and_the_running() -> None:
    """The subject is who waited; who held the CPU is evidence; times are microseconds."""
    record = run_queue.EVENT.pack(
        t_ns=3, value_ns=60 * MS, budget_ns=50 * MS, what=0, cpu=1, pid=11, task=21, tgid=20, comm="hog", task_comm="ffmpeg"
    )
    found = run_queue.sighting(memoryview(record))
    assert (found.t_mono_ns, found.kind, found.subject, found.severity) == (3, "sched.latency", "ffmpeg", "warning")
    assert (found.data["pid"], found.data["tgid"], found.data["wait_us"], found.data["budget_us"]) == (21, 20, 60_000, 50_000)
    assert (found.data["running_pid"], found.data["running_comm"]) == (11, "hog")


def test_blocked_names_the_waker() -> None:
    """After an uninterruptible sleep, who was on the CPU is the waker, and there is no stack."""
    record = run_queue.EVENT.pack(value_ns=200 * S, budget_ns=10 * S, what=1, pid=0, task=21, comm="swapper/0", task_comm="dd")
    found = run_queue.sighting(memoryview(record))
    assert (found.kind, found.subject, found.severity, found.data["stack"]) == ("sched.blocked", "dd", "error", [])
    assert (found.data["blocked_us"], found.data["waker_comm"]) == (200_000_000, "swapper/0")


def test_options_become_the_ctl_struct() -> None:
    """Micro- and milliseconds become nanoseconds, and the flag is on."""
    row = run_queue.CTL.unpack(run_queue.steer(run_queue.Options(latency_us=100, blocked_ms=10), Tables()))
    assert (row["enabled"], row["latency_ns"], row["blocked_ns"]) == (1, 100_000, 10 * MS)


def test_a_report_is_sorted_by_the_time_waited() -> None:
    """Differences of two snapshots: many short waits weigh less than one long; voluntary is what was not involuntary."""
    before = run_queue.snapshot(Kernel({0: process(100, (1,), involuntary=1), 9: process(7, (3,))}).maps())
    rows = {0: process(100, (1, 1, 1, 1), involuntary=2, migrations=1), 9: process(7, (3,)), 12: process(5, (80,))}
    report = run_queue.report(before, run_queue.snapshot(Kernel(rows).maps()))
    assert [(line["pid"], line["comm"], line["voluntary"], line["involuntary"]) for line in lines(report)] == [
        (5, "p5", 1, 0),
        (100, "p100", 2, 1),
    ]
    assert lines(report)[1]["migrations"] == 1
    assert cast("Data", report["run_queue_us"])["count"] == 4
    assert cast("Data", report["run_queue_us"])["max"] == 80_000


def test_what_gave_way_is_told_as_other() -> None:
    """A process that was evicted between the snapshots is not lost, and what it had waited before is not counted again."""
    before = run_queue.snapshot(Kernel({0: process(100, (1, 1, 1))}).maps())
    rows = {0: process(200, (2,)), run_queue.OTHER: process(0, (1, 1, 1, 1, 1))}
    report = run_queue.report(before, run_queue.snapshot(Kernel(rows).maps()))
    found = [(line["comm"], cast("Data", line["run_queue_us"])["count"]) for line in lines(report)]
    assert found == [("p200", 1), ("other", 2)]


def test_other_has_the_keys_of_every_row() -> None:
    """What gave way has its voluntary and involuntary switches, its migrations and its buckets, like a process."""
    rows = {0: process(200, (2, 2), involuntary=1), run_queue.OTHER: process(0, (1, 1, 1), involuntary=1, migrations=4)}
    shown, other = lines(run_queue.report(None, run_queue.snapshot(Kernel(rows).maps())))
    assert set(shown) == set(other)
    assert (other["voluntary"], other["involuntary"], other["migrations"]) == (2, 1, 4)
    assert sum(cast("dict[str, int]", other["buckets"]).values()) == 3


def test_a_process_whose_entry_was_made_anew_counts_from_zero() -> None:
    """It gave way and came back between the snapshots: the new entry has nothing of the old, however large its counts are."""
    before = run_queue.snapshot(Kernel({0: process(100, (1, 1), involuntary=2, made_ns=7)}).maps())
    rows = {3: process(100, (1, 1, 1), involuntary=3, made_ns=8), run_queue.OTHER: process(0, (1, 1), involuntary=2)}
    (line,) = lines(run_queue.report(before, run_queue.snapshot(Kernel(rows).maps())))
    assert (line["pid"], line["involuntary"], cast("Data", line["run_queue_us"])["count"]) == (100, 3, 3)


def test_cgroups_are_sums_of_processes() -> None:
    """Processes of one v2 cgroup are added up; the longest total wait comes first."""
    rows = {0: process(1, (1, 1), cgroup=40), 1: process(2, (2,), cgroup=40), 2: process(3, (90,), cgroup=50)}
    report = run_queue.report(None, run_queue.snapshot(Kernel(rows).maps()))
    groups = cast("list[Data]", report["cgroups"])
    assert [(group["id"], cast("Data", group["run_queue_us"])["count"]) for group in groups] == [(50, 1), (40, 3)]


@pytest.mark.parametrize("cgroup", [0, 1])
def test_without_a_used_v2_hierarchy_cgroups_are_unavailable(cgroup: int) -> None:
    """Everything in the root, or no v2 at all, is no figure by cgroup."""
    report = run_queue.report(None, run_queue.snapshot(Kernel({0: process(1, (1,), cgroup=cgroup)}).maps()))
    assert report["cgroups"] == "unavailable"


DAY = 86_400 * S


def test_tasks_that_are_blocked_now_are_told() -> None:
    """Beyond the limit only, longest first, days included; sleepers of another kind and from before a pause are not."""
    now, since = 40 * DAY, 20 * DAY
    slots = {
        5: (5, 3, now - 11 * S),
        6: (4_000_000, 3, now - 15 * DAY),
        7: (7, 3, now - 9 * S),
        8: (8, 1, now - 60 * S),
        9: (9, 3, since - 1000),
    }
    found = cast("list[Data]", run_queue.snapshot(Kernel({}, slots, now, since).maps())["blocked"])
    assert [row["pid"] for row in found] == [4_000_000, 5]
    assert cast("float", found[1]["blocked_us"]) == pytest.approx(11e6, abs=70_000)


def test_a_task_that_stays_blocked_is_one_sighting_of_one_key() -> None:
    """Seen at two moments it has one key, another sleep of the same task another one; a task that is gone is left out."""
    names = {5: (4, "dd")}
    slots = {5: (5, 3, 20 * S), 6: (6, 3, 20 * S)}
    early = run_queue.standing(Kernel({}, slots, 40 * S, S).maps(), names.get)
    late = run_queue.standing(Kernel({}, slots, 140 * S, S).maps(), names.get)
    (key,) = early
    assert set(late) == {key}
    assert set(run_queue.standing(Kernel({}, {5: (5, 3, 90 * S)}, 140 * S, S).maps(), names.get)).isdisjoint({key})
    assert (early[key].kind, early[key].subject, early[key].severity) == ("sched.blocked", "dd", "warning")
    assert late[key].severity == "error"
    assert late[key].t_mono_ns == pytest.approx(140 * S, abs=1 << 26)
    told = early[key].data
    assert (told["pid"], told["tgid"], told["cpu"], told["budget_us"], told["waker_pid"]) == (5, 4, 1, 10e6, None)
    assert told["blocked_us"] == pytest.approx(20e6, abs=70_000)


def test_the_list_of_blocked_tasks_is_bounded() -> None:
    """A storage that hangs blocks hundreds: sixteen are told."""
    slots = {pid: (pid, 3, 5 * S + pid * 64) for pid in range(1, 400)}
    found = cast("list[Data]", run_queue.snapshot(Kernel({}, slots, 100 * S, S).maps())["blocked"])
    assert [row["pid"] for row in found] == list(range(1, run_queue.LISTED + 1))
