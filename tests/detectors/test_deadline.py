"""deadline: who is silent for too long, who is only starved, and what is learned from whom."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.detectors.deadline import Deadline
from agent.errors import StoreError
from agent.model import Data, Json
from tests.detectors import traces
from tests.detectors.traces import NAME, NS, Replay, Trace, joined, load, pause, steady

RECORDED = sorted(path.stem for path in traces.FOLDER.glob("*.json") if path.stem != "starts")
IDLE = [name for name in RECORDED if name.endswith("idle")]


def many(name: str, times: int) -> Trace:
    """Give a recorded trace several times over."""
    return joined([load(name)] * times)


def deadline(one: Replay) -> float:
    """Give the deadline in force."""
    found = one.row()["deadline_s"]
    assert isinstance(found, float | int)
    return found


def learned() -> Replay:
    """Give one that has seen ten minutes of regular beats."""
    one = Replay()
    one.play(steady(600, 1.0))
    return one


@pytest.mark.parametrize("name", RECORDED)
def test_no_recorded_workload_is_ever_killed(name: str) -> None:
    """Five times over, idle or with its CPU shared by four that never rest: not one false alarm."""
    one = Replay()
    one.play(many(name, 5))
    assert one.misses == []


@pytest.mark.parametrize("name", IDLE)
def test_a_hang_is_found_within_the_learned_deadline(name: str) -> None:
    """What hangs is told a second after its deadline (and what the machine was to blame for)."""
    one = Replay()
    one.play(many(name, 5))
    limit = deadline(one)
    one.play(many(name, 3), hang_at=load(name).seconds / 2)
    assert len(one.misses) == 1
    data = one.misses[0].data
    assert data["phase"] == "run"
    assert float(str(data["silent_s"])) - float(str(data["starved_s"])) <= limit + 2.5


def test_a_hang_under_overload_is_found_too() -> None:
    """A deadlocked process waits for no CPU, however busy the machine: its start value of 10 s becomes 20 s at most."""
    one = Replay()
    one.play(many("camera_overload", 2))
    one.play(many("camera_overload", 2), hang_at=30)
    assert len(one.misses) == 1
    assert float(str(one.misses[0].data["silent_s"])) < 22


def test_deadlines_shrink_to_what_the_workload_needs() -> None:
    """From 10 s towards a few seconds within an hour: quick at first, ever slower."""
    for name in ("disk_idle", "decoder_idle"):
        one, seen = Replay(), list[float]()
        for times in (0, 5, 20, 35):
            one.play(many(name, times))
            seen.append(deadline(one))
        assert seen == sorted(seen, reverse=True)
        assert seen[-1] < 5


@pytest.mark.parametrize(
    "stall",
    [
        pause(15, io_full=0.95),
        pause(15, memory_full=0.9, cpu_some=0.5),
        pause(15, cpu_some=1.0, wait=0.9, run=0.1),
        joined([pause(5, cpu_some=1.0, wait=0.8, run=0.2)] * 4),
        pause(4, cpu_some=1.0),
    ],
    ids=["disk", "memory", "its CPU", "slowed down five times", "its peer's CPU"],
)
def test_a_starved_machine_is_no_hang(stall: Trace) -> None:
    """The whole machine stands for 15 s and more, with a learned deadline of 2 s: nobody is to blame."""
    one = learned()
    one.play(stall)
    one.play(steady(60, 1.0))
    assert one.misses == []


def test_the_same_silence_on_an_idle_machine_is_one() -> None:
    """15 s without a beat and without an excuse."""
    one = learned()
    one.play(pause(15, cpu_some=0.02))
    one.play(steady(5, 1.0))
    assert [finding.state for finding in one.found] == ["critical", "ok"]
    data = one.misses[0].data
    assert data["silent_s"] == pytest.approx(deadline(learned()) + 1.25, abs=0.6)
    assert data["cause"] == "deadline"


def test_starvation_excuses_no_silence_for_ever() -> None:
    """After eight deadlines it is a miss, whatever the counters say."""
    one = learned()
    one.play(pause(600, io_full=1.0, cpu_some=1.0))
    data = one.misses[0].data
    assert float(str(data["silent_s"])) <= 8 * float(str(data["deadline_s"])) + 2


def test_starved_intervals_are_not_learned() -> None:
    """A quarter of an hour at a fifth of the speed leaves the deadline as it was."""
    one = learned()
    one.play(steady(20, 1.0))
    before = deadline(one)
    one.play(joined([pause(5, cpu_some=1.0, wait=0.8, run=0.2)] * 180))
    assert one.misses == []
    assert deadline(one) == pytest.approx(before, abs=0.005)


def test_nothing_is_learned_during_a_hold() -> None:
    """An operator at work: what the workload does then is no example."""
    one = learned()
    before = deadline(one)
    one.see("workload.hold", {"until_ns": round((one.now + 300) * NS), "why": "x"}, "gateway")
    one.play(joined([pause(2)] * 100))
    assert deadline(one) == before
    one.play(joined([pause(4)] * 60))
    assert deadline(one) > before


def test_patience_that_was_asked_for_is_given() -> None:
    """EXTEND_TIMEOUT_USEC: no miss before it is over, one after; and such intervals are not learned."""
    one = learned()
    until: Json = round((one.now + 61) * NS)
    one.play(steady(1, 1.0), more={"extend_until_ns": until})
    one.play(Trace((), (0.0, 59.0), ((0.0,) * 5, (0.0,) * 5)))
    assert one.misses == []
    one.play(Trace((), (0.0, 10.0), ((0.0,) * 5, (0.0,) * 5)))
    assert len(one.misses) == 1


def test_the_programs_own_wish_is_the_longest() -> None:
    """WATCHDOG_USEC of 5 s: the start value of 10 s is not waited for; of 30 s: it is, for a program that beats every 15 s."""
    one = Replay()
    one.play(steady(2, 1.0), more={"watchdog_us": 5_000_000})
    assert one.row()["deadline_s"] == 5
    two = Replay()
    two.play(steady(2, 1.0), more={"watchdog_us": 30_000_000})
    two.play(joined([pause(15)] * 20), more={"watchdog_us": 30_000_000})
    assert two.misses == []
    assert deadline(two) == 30


def test_what_it_was_handed_is_no_wish() -> None:
    """The keeper hands the configured deadline to the program: it may still widen beyond that."""
    one = Replay(deadline_s=10)
    one.play(joined([pause(7)] * 30))
    assert 14 <= deadline(one) < 21
    one.play(pause(13))
    assert one.misses == []


def test_a_program_may_switch_its_watchdog_off() -> None:
    """WATCHDOG_USEC=0: its silence is none any more; its next process is watched again."""
    one = learned()
    one.play(steady(2, 1.0), more={"watchdog_us": None})
    one.play(Trace((), (0.0, 300.0), ((0.0,) * 5, (0.0,) * 5)))
    assert one.misses == []
    one.pid += 1
    one.state("running")
    one.play(Trace((), (0.0, 30.0), ((0.0,) * 5, (0.0,) * 5)))
    assert len(one.misses) == 1


def test_the_hardware_watchdog_waits_longer() -> None:
    """A ceiling of 12 s clamps what was learned from a workload of 10 s intervals."""
    one = Replay(ceiling_s=12)
    one.play(joined([pause(10)] * 40))
    assert deadline(one) == 12


def test_a_suspicion_is_looked_at_twice() -> None:
    """The agent itself stood still for a minute: the first look finds a silence, then it reads what had waited; no miss."""
    one = learned()
    one.now += 60
    one.look()
    assert one.misses == []
    late: Data = {"last_ns": round((one.now - 0.2) * NS), "intervals_ms": [1000.0] * 60, "watchdog_us": 10_000_000}
    one.see("workload.beats", {**late, "extend_until_ns": None, "phase": "run"})
    one.now += 1
    one.look()
    assert one.misses == []


def test_while_the_keeper_is_away_nobody_is_silent() -> None:
    """Without its messages silence proves nothing; when it is back the count begins anew."""
    one = learned()
    one.see("workload.link", {"up": False}, "keeper")
    one.play(pause(100))
    one.now += 0.5
    one.see("workload.link", {"up": False}, "keeper")
    assert one.detector.next_due_ns() is None
    one.see("workload.link", {"up": True}, "keeper")
    due = one.detector.next_due_ns()
    assert due is not None
    assert due >= one.now * NS
    assert one.misses == []


def test_while_the_keeper_hangs_nobody_is_silent() -> None:
    """A keeper that stands still tells no beats: only a silence that it answered in the midst of is one, then at once."""
    one = learned()
    one.see("workload.told", {"until_ns": round(one.now * NS)}, "keeper")
    looks = 0
    for _ in range(40):
        due = one.detector.next_due_ns()
        assert due is not None
        one.now, looks = max(one.now + 0.02, due / NS), looks + 1
        one.look()
    assert one.misses == []
    assert looks / (one.now - 1600) <= 2.5, "no busy loop meanwhile"
    asked = one.now
    one.now += 1.5
    one.see("workload.told", {"until_ns": round(asked * NS)}, "keeper")  # it goes on: from here on it may tell of beats
    one.now += 0.9
    one.see("workload.told", {"until_ns": round(one.now * NS)}, "keeper")
    assert one.misses == []
    one.now += 0.4
    one.see("workload.told", {"until_ns": round(one.now * NS)}, "keeper")
    assert len(one.misses) == 1


@pytest.mark.parametrize("state", ["stopped", "held", "failed", "backoff"])
def test_what_does_not_run_is_not_watched(state: str) -> None:
    """A stop ends the finding, too."""
    one = learned()
    one.play(Trace((), (0.0, 20.0), ((0.0,) * 5, (0.0,) * 5)))
    assert [finding.state for finding in one.found] == ["critical"]
    one.state(state)
    assert [finding.state for finding in one.found] == ["critical", "ok"]
    one.play(Trace((), (0.0, 100.0), ((0.0,) * 5, (0.0,) * 5)))
    assert len(one.found) == 2


def test_a_new_process_is_given_its_start_and_ends_the_finding_when_it_is_ready() -> None:
    """Missed, restarted, 92 s to start: no second finding, and the first ends with READY."""
    one = learned()
    one.play(Trace((), (0.0, 20.0), ((0.0,) * 5, (0.0,) * 5)))
    one.pid += 1
    one.state("starting")
    one.play(Trace((), (0.0, 92.0), ((0.0,) * 5, (0.0,) * 5)))
    assert [finding.state for finding in one.found] == ["critical"]
    one.state("running")
    assert [finding.state for finding in one.found] == ["critical", "ok"]
    assert one.row()["misses"] == 1


def test_a_start_that_never_ends_is_a_miss_of_its_phase() -> None:
    """Two minutes, then critical; the finding tells the phase."""
    one = Replay()
    one.pid += 1
    one.state("starting")
    one.play(Trace((), (0.0, 130.0), ((0.0,) * 5, (0.0,) * 5)))
    assert [finding.data["phase"] for finding in one.misses] == ["start"]
    assert one.row()["deadline_s"] == 240


def test_who_waits_for_another_one_has_not_begun_to_start() -> None:
    """Starting without a process: it comes `after` one that takes five minutes."""
    one = Replay()
    one.see("workload.state", {"state": "starting", "pid": None, "reason": "", "restarts": 0, "ready": False, "status": ""})
    one.play(Trace((), (0.0, 300.0), ((0.0,) * 5, (0.0,) * 5)))
    assert one.misses == []


def test_reload_and_stop_have_deadlines_of_their_own() -> None:
    """A reload that hangs is found after a minute, a stop after a minute and a half."""
    for state, most in (("reloading", 62), ("stopping", 92)):
        one = learned()
        one.state(state)
        one.play(Trace((), (0.0, 100.0), ((0.0,) * 5, (0.0,) * 5)))
        assert one.misses[0].data["phase"] == {"reloading": "reload", "stopping": "stop"}[state]
        assert float(str(one.misses[0].data["silent_s"])) < most


@pytest.mark.parametrize("liveness", ["none", "ready"])
def test_who_proves_nothing_is_not_watched_and_shown_as_such(liveness: str) -> None:
    """No beat is asked of a workload that promised none; `proven` tells status what may be shown as working."""
    one = Replay()
    one.see("workload.known", {"deadline_s": 5, "ceiling_s": None, "liveness": liveness})
    one.play(Trace((), (0.0, 300.0), ((0.0,) * 5, (0.0,) * 5)))
    assert one.found == []
    assert one.row()["proven"] == (liveness == "ready")
    assert one.row()["margin_s"] is None


def test_the_row_tells_margins() -> None:
    """What was left at 99 of 100 beats, and what is left now."""
    one = learned()
    one.now += 1.5
    row = one.row()
    assert row["silent_s"] == pytest.approx(1.5, abs=1)
    assert isinstance(row["margin_p1_s"], float)
    assert 0 < row["margin_p1_s"] <= deadline(one)
    assert Deadline().row("nobody", 0) == {}


def test_a_step_back_of_time_is_no_harm() -> None:
    """Equal and earlier times: no miss, no exception (the kernel promises more, a test double may not)."""
    one = learned()
    one.now -= 500
    one.look()
    one.look()
    assert one.misses == []


def test_what_was_learned_outlives_a_restart() -> None:
    """Through JSON, before or after the workloads are known."""
    one = learned()
    kept = json.loads(json.dumps(one.detector.plain(0)))
    early = Deadline()
    early.restore(kept, 0)
    late = Replay()
    late.detector.restore(kept, 0)
    for two in (Replay(early), late):
        two.play(steady(2, 1.0))
        assert deadline(two) == pytest.approx(deadline(one), abs=0.1)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda part: (
        st.lists(part, max_size=3)
        | st.dictionaries(st.sampled_from(["schema", "workloads", NAME, "run", "count", "mean_s"]), part)
    ),
)


@given(JSON)
def test_a_corrupt_file_is_one_error_and_changes_nothing(value: Any) -> None:
    """Whoever reads it sets it aside; the defaults serve."""
    one = Replay()
    try:
        one.detector.restore(value, 0)
    except StoreError as error:
        assert str(error)  # noqa: PT017 - either outcome is right
    assert deadline(one) == 10


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.floats(0, 30), st.floats(0, 1), st.floats(0, 1), st.booleans()), max_size=30))
def test_whatever_happens_the_next_look_is_in_the_future(steps: list[tuple[float, float, float, bool]]) -> None:
    """No alarm fires without a pause: after a look the next one is later, so that one timer cannot spin."""
    one = Replay()
    for seconds, some, wait, beat in steps:
        part = pause(max(seconds, 0.01), cpu_some=some, wait=wait, run=1 - wait)
        one.play(part if beat else Trace((), part.times, part.totals))
        one.look()
        due = one.detector.next_due_ns()
        assert due is None or due > one.now * NS
