"""timer_race: sixteen fixed bugs of the kernel replayed through the rules, and what the detector makes of events.

`races/NN_name.txt` has the events of a bug whose repair it names: as they came when it struck, and as they come since.
Four known timer bugs are not among them, because they leave no trace in timer events: lost updates and check-then-act on data
(CVE-2023-53189 in ipv6/addrconf; c2aba69d0c36 in can/bcm), and memory order inside the timer core (bb7262b29547,
b831275a3553). `race prove` is for the first two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.detectors._race_allowed import ALLOWED, allowed
from agent.detectors._race_rules import CHANGES, RULES, TIMERS, Lives, Step, replay
from agent.detectors._race_verdict import _TOLD, classify, judge
from agent.detectors.timer_race import Options, make
from agent.model import Data
from agent.probes.timer_race import TRANSITIONS
from tests.detectors.replay import event, states
from tests.detectors.replay import replay as run

RACES = sorted((Path(__file__).parent / "races").glob("*.txt"))
TIMER = 0x1000
US = 1000


@dataclass
class Race:
    """One file."""

    head: dict[str, str]
    streams: dict[str, list[Step]]


def read(path: Path) -> Race:
    """Read a file of events: times and expiries in microseconds."""
    head: dict[str, str] = {}
    streams: dict[str, list[Step]] = {}
    repeat, every, stream = 1, 0, ""
    for line in filter(str.strip, path.read_text().splitlines()):
        if ":" in line:
            key, _, value = line.partition(":")
            head[key.strip()] = value.strip()
        elif line in {"faulty", "fixed"}:
            stream, repeat, every = line, 1, 0
            streams[stream] = []
        elif line.startswith("repeat="):
            repeat, every = (int(item.partition("=")[2]) for item in line.split())
        else:
            streams[stream].append(step(line.split(), head["callback"]))
    for name, steps in streams.items():
        streams[name] = [*_repeated(steps, repeat, every)]
    return Race(head, streams)


def _repeated(steps: list[Step], times: int, every: int) -> Iterator[Step]:
    for turn in range(times):
        for one in steps:
            yield Step(one.t_ns + turn * every * US, one.what, one.timer, one.cpu, one.pid, one.callback, one.value, one.work)


def step(words: list[str], callback: str) -> Step:
    """Read one line."""
    given = {key: int(value, 0) for key, _, value in (word.partition("=") for word in words if "=" in word)}
    what = next(word for word in words[1:] if "=" not in word)
    value = given.get("length", given.get("expires", 0) * US)
    timer = given.get("timer", TIMER)
    if what == "free":
        timer -= 64  # a timer lies inside of what is freed
    return Step(int(words[0]) * US, what, timer, given["cpu"], given["pid"], callback, value, given.get("work", 0))


@pytest.mark.parametrize("path", RACES, ids=lambda path: path.stem)
def test_a_fixed_bug_is_named_and_its_repair_is_silent(path: Path) -> None:
    """Pins, for each bug: exactly its classes when it strikes, with two different sides; nothing once it is repaired."""
    race = read(path)
    found = replay(race.streams["faulty"])
    assert sorted({item.fault for item in found}) == sorted(race.head["expect"].split()), found
    assert all(item.callback == race.head["callback"] for item in found)
    assert all(item.step is not item.other or item.fault == "F9" for item in found)
    assert replay(race.streams["fixed"]) == []


def test_all_reachable_bugs_are_there() -> None:
    """Pins the sixteen, each with the repair that it is known by; every class is among them or tested below."""
    assert [int(path.stem[:2]) for path in RACES] == [1, 2, 3, 4, 5, 6, 7, 8, 9, 13, 14, 16, 17, 18, 19, 20]
    assert all(read(path).head["fix"] for path in RACES)
    replayed = {fault for path in RACES for fault in read(path).head["expect"].split()}
    assert {rule.fault for rule in RULES} - replayed == {"F7", "F11"}


def test_late_and_overlong() -> None:
    """F7: an entry later than its limit, and a callback that ran longer than its own."""
    late = [Step(0, "start", 1, value=1), Step(60_000_000, "entry", 1, value=59_999_999), Step(90_000_000, "exit", 1)]
    assert [(item.fault, item.step.what) for item in replay(late)] == [("F7", "entry"), ("F7", "exit")]


def test_two_callbacks_that_wait_for_each_other() -> None:
    """F11: each deletes the other's timer and waits; the second of the two closes the circle."""
    entries = [Step(0, "entry", 1, 0), Step(1, "entry", 2, 1, callback="b")]
    circle = [*entries, Step(2, "delete_sync", 2, 0), Step(3, "delete_sync", 1, 1)]
    assert [item.fault for item in replay(circle)] == ["F11"]
    one_way = [*entries, Step(2, "delete_sync", 2, 0), Step(3, "exit", 2, 1)]
    assert replay(one_way) == []


def test_what_timers_do_all_day_is_silent() -> None:
    """Pins the innocents: requeue, restart by the callback itself, a loop that its owner starts again, reuse after the end."""
    requeue = [
        Step(t, what, 1, 0, 5, value=100) for t, what in enumerate(("init", "start", "cancel", "start", "cancel", "init"))
    ]
    restart = [Step(t, what, 1, 1, 0, value=100) for t, what in enumerate(("start", "entry", "start", "exit", "entry", "exit"))]
    kick = [
        Step(0, "entry", 1, 1, 0), Step(1, "queue", 1, 1, 0, work=7), Step(2, "exit", 1, 1, 0),
        Step(3, "start", 1, 1, 0, value=9),
        Step(4, "cancel", 1, 0, 5), Step(5, "queue", 0, 0, 5, work=7), Step(6, "work_start", 0, 1, 9, work=7),
        Step(7, "start", 1, 1, 9, value=9), Step(8, "work_end", 0, 1, 9, work=7), Step(9, "entry", 1, 1, 0),
    ]  # fmt: skip
    for stream in (requeue, restart, kick):
        assert replay(stream) == []


@given(
    st.lists(
        st.builds(
            Step,
            t_ns=st.integers(0, 10**10),
            what=st.sampled_from(sorted(CHANGES)),
            timer=st.integers(0, 5),
            cpu=st.integers(0, 2),
            pid=st.integers(0, 3),
            value=st.integers(-1, 10),
            work=st.integers(0, 2),
        ),
        max_size=60,
    )
)
def test_any_stream_is_survived(steps: list[Step]) -> None:
    """Whatever order events come in (some lost, some twice): no exception, and a suspicion is of the step that raised it."""
    lives = Lives()
    for item in steps:
        assert all(found.step is item for found in lives.see(item))


def test_memory_is_bounded() -> None:
    """Pins that the longest unseen timer is forgotten when there are too many."""
    lives = Lives()
    for timer in range(1, 2 * TIMERS):
        lives.see(Step(timer, "start", timer, value=1))
    assert lives.life(1) is None
    assert lives.life(2 * TIMERS - 1) is not None


def report(transition: str, **more: object) -> Data:
    """Give a report of the probe: CPU 0 acted against CPU 1."""
    actor = {"cpu": 0, "pid": 5, "context": "task", "symbol": "rmmod+0x1", "stack": ["rmmod+0x1"]}
    made = {"transition": transition, "callback": "cb", "kind": "hrtimer", "confirmed": "kernel", "count": 1}
    return cast("Data", {**made, "actor": actor, "other": {"cpu": 1, "pid": 0, "context": "hardirq"}, **more})


CLASSES = {
    "init_armed": "F1", "init_running": "F1", "start_running": "F2", "delete_running": "F3", "free_armed": "F4",
    "start_freed": "F4", "free_running": "F5", "late": "F7", "overlong": "F7", "periods_missed": "F7",
    "stuck": "F8", "storm": "F9",
    "rearmed_expired": "F10", "rearmed_freed": "F10", "cross_cancel": "F11",
}  # fmt: skip


def test_each_transition_of_the_kernel_side_has_its_class() -> None:
    """Pins that what the kernel sends goes through the rules, and which class they find in it."""
    assert {name: classify(report(name)) for name in TRANSITIONS} == CLASSES
    assert set(_TOLD) == set(TRANSITIONS)
    assert classify(report("from the future")) is None


def test_the_same_place_is_no_race() -> None:
    """A start by the CPU and task on which the callback runs is its own, whatever the kernel side calls it."""
    assert judge(report("start_running", other={"cpu": 0, "pid": 5})) is None


@pytest.mark.parametrize(
    ("made", "verdict"),
    [
        (report("start_running"), "fault"),
        (report("start_running", kind="timer"), "suspect"),
        (report("start_running", callback="timerfd_tmrproc"), "benign"),
        (report("start_running", callback="timerfd_tmrproc [mine]"), "fault"),
        (report("free_running", confirmed="guess"), "suspect"),
        (report("storm"), "suspect"),
        (report("late"), "suspect"),
        (report("stuck"), "fault"),
        (report("stuck", callback="tick_nohz_handler"), "benign"),
        (report("init_armed", callback="process_timeout"), "benign"),
    ],
)
def test_verdicts(made: Data, verdict: str) -> None:
    """Pins who is accused, who is only suspected, and who is known to be innocent; a module never is by its name."""
    judged = judge(made)
    assert judged is not None
    assert judged.verdict == verdict
    assert bool(judged.reason) == (verdict != "fault")


def test_whoever_waits_is_no_suspect() -> None:
    """hrtimer_cancel() tries until the callback is done: each try looks like F3 and is the remedy of it."""
    actor = {"cpu": 0, "pid": 5, "stack": ["hrtimer_try_to_cancel+0x1/0x2", "hrtimer_cancel+0x15/0x30", "f+0x1"]}
    assert judge(report("delete_running", actor=actor)) is None
    assert judge(report("delete_running")) is not None


def test_the_list_of_innocents_has_reasons() -> None:
    """Pins the shipped list: a reason each, no row that hides another, and what the rules call a fault."""
    faults = {rule.fault for rule in RULES}
    for row in ALLOWED:
        assert len(row.reason) > 10
        assert row.faults <= faults
    assert allowed("tcp_write_timer", "F2")
    assert not allowed("tcp_write_timer", "F5")


def test_a_confirmed_fault_is_a_finding_at_once() -> None:
    """One fault confirmed by the kernel; suspicions only when they keep coming; benign ones never; the end after quiet."""
    fault = [event(1, "timer.race", "cb", **report("start_running"))]
    assert states(run(make(Options(quiet_s=60)), fault, until=100)) == [("F2 cb", "degraded"), ("F2 cb", "ok")]
    suspect = [event(second, "timer.race", "cb", **report("start_running", kind="timer")) for second in (1, 2, 3)]
    assert states(run(make(Options()), suspect[:2], until=4)) == []
    assert states(run(make(Options()), suspect, until=4)) == [("F2 cb", "degraded")]
    benign = [event(second, "timer.race", "cb", **report("stuck", callback="tick_nohz_handler")) for second in (1, 2, 3)]
    assert run(make(Options()), benign, until=4) == []
