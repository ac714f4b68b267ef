"""The life of a workload and of all together, without processes: what each thing that happens leads to."""

from __future__ import annotations

import signal
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.keeping.budget import NS
from agent.keeping.crew import Crew
from agent.keeping.effects import Effects, Exit, Order, Signal, Spawn, Tell, WriteProfile
from agent.keeping.hearing import heard
from agent.keeping.lifecycle import START_S, STOP_MOST_S, STOP_S, STUCK_S, Lifecycle
from agent.keeping.messages import LIMIT, VERBS, beats, encode
from agent.keeping.notify import Said
from agent.keeping.orders import CONFIRM_S, TABLE, obey
from agent.keeping.plan import Plan
from agent.model import Data

STATES = {"starting", "running", "reloading", "stopping", "backoff", "stopped", "failed", "held"}


def plan(name: str = "a", **more: object) -> Plan:
    """Give a plan."""
    return Plan(**({"name": name, "command": ("x",), "env": {}, "degrade": ("low",)} | more))  # type: ignore[arg-type]


def told(effects: Effects, kind: str) -> list[Data]:
    """Give the messages of a kind."""
    return [one.message for one in effects if isinstance(one, Tell) and one.message["type"] == kind]


def running(notify: str = "watchdog") -> Lifecycle:
    """Give one that runs since 0, as process 10."""
    life = Lifecycle(plan(notify=notify))
    assert life.start("") == [Spawn("a", "")]
    life.spawned(10, 0)
    heard(life, Said(ready=True), 0)
    assert life.state == "running"
    return life


def test_ready_in_time_or_not() -> None:
    """Pins the start budget: an extension moves it, READY=1 ends it, without either the process is ended."""
    life = Lifecycle(plan(notify="ready"))
    life.start("")
    life.spawned(10, 0)
    heard(life, Said(extend_us=900_000_000), 0)
    assert life.due(int(START_S * NS)) == []
    effects = life.due(900 * NS)
    assert told(effects, "notice")[0]["what"] == "start_timeout"
    assert Signal("a", signal.SIGTERM, group=True) in effects
    assert life.state == "stopping"


def test_an_adopted_one_is_not_ended_for_a_ready_that_was_lost() -> None:
    """Pins that READY=1 said to a keeper that died at that moment costs no workload."""
    life = Lifecycle(plan(notify="ready"))
    life.adopt(10, "", 3, 0, ready=False)
    assert (life.state, life.restarts) == ("starting", 3)
    assert told(life.due(int(START_S * NS)), "state")[0]["state"] == "running"
    assert life.due_ns is None


def test_what_it_says_of_itself() -> None:
    """Pins the phases: reloading and back, stopping, and that WATCHDOG_USEC and EXTEND_TIMEOUT_USEC are told with the beats."""
    life = running()
    assert (life.phase, life.watchdog_us) == ("run", 10_000_000)
    heard(life, Said(reloading=True), 1)
    assert (life.state, life.phase) == ("reloading", "reload")
    heard(life, Said(ready=True, watchdog_us=5, extend_us=7), 2)
    assert (life.state, life.watchdog_us, life.extend_ns) == ("running", 5, 7002)
    heard(life, Said(watchdog_us=0), 3)
    assert life.watchdog_us is None
    heard(life, Said(stopping=True), 4)
    assert (life.state, life.phase) == ("stopping", "stop")
    assert heard(life, Said(ready=True), 5) == []
    assert told(life.due(int(STOP_S * NS) + 4), "notice")[0]["what"] == "stops_slowly"


def test_a_status_is_told_when_it_is_new() -> None:
    """Pins STATUS: a change is told at once, the same again is not, and one that is said quietly comes with the next state."""
    life = running()
    assert told(heard(life, Said(status="a"), 1), "state")[0]["status"] == "a"
    assert heard(life, Said(status="a"), 2) == []
    assert heard(life, Said(status="b", reloading=True), 3, quietly=True) == []
    assert told(heard(life, Said(reloading=True), 4), "state")[0]["status"] == "b"


def test_the_signs_of_life_of_all_fit_into_one_line() -> None:
    """Pins the bound of a beats message: 64 workloads with long names and long intervals."""
    crew = Crew([plan("n" * 30 + f"{number:02}", notify="watchdog") for number in range(64)])
    for life in crew.lives.values():
        life.start("")
        life.spawned(10, 0)
        for at in range(100):
            heard(life, Said(beat=True, work=at << 50, extend_us=86_400_000_000), at * 86_399_999_999_999)
    assert len(encode(beats(1 << 62, crew.beats(list(crew.lives))))) < LIMIT


def test_an_extension_does_not_decide_when_the_gateway_goes_down() -> None:
    """Pins the bound of EXTEND_TIMEOUT_USEC while stopping."""
    life = running()
    life.end(signal.SIGTERM, "test", 0)
    heard(life, Said(extend_us=3_600_000_000), 0)
    assert life.due_ns == int(STOP_MOST_S * NS)


def test_sigkill_and_what_even_that_does_not_end() -> None:
    """Pins the end of the line: notice, then `unkillable`, then an order that failed; the keeper may end without it."""
    crew = Crew([plan()])
    life = crew.lives["a"]
    crew.begin(0)
    life.spawned(10, 0)
    crew.obey(Order("1", "terminate", "a"), 0)
    effects = life.due(int(STOP_S * NS))
    assert Signal("a", signal.SIGKILL, group=True) in effects
    effects = life.due(int((STOP_S + STUCK_S) * NS))
    assert told(effects, "notice")[0]["what"] == "unkillable"
    assert told(effects, "done")[0]["ok"] is False
    crew.close(0)
    assert crew.done


def test_beats_are_intervals_within_one_phase() -> None:
    """Pins that neither a restart nor a change of phase makes an interval, that work counts once, and the bound."""
    life = running()
    for at in (1, 2, 4):
        heard(life, Said(beat=True), at * 1_000_000)
    heard(life, Said(reloading=True, beat=True), 5_000_000)
    heard(life, Said(work=3, beat=True), 7_000_000)
    heard(life, Said(work=3), 9_000_000)
    taken = life.beats.take()
    assert taken == {"last_ns": 7_000_000, "intervals_ms": [1.0, 2.0, 2.0], "work": 3}
    for at in range(200):
        heard(life, Said(beat=True), 10_000_000 + at * at)
    intervals = life.beats.take()["intervals_ms"]
    assert isinstance(intervals, list)
    assert len(intervals) == 48
    life.exited(Exit(10, code=1), NS)
    life.spawned(11, NS)
    assert life.beats.take()["last_ns"] is None
    heard(life, Said(beat=True), 2 * NS)
    assert life.beats.take() == {"last_ns": 2 * NS, "intervals_ms": [], "work": 3}


def test_an_exit_is_told_with_its_replacement() -> None:
    """Pins that spawning comes before all talk, and that the exit message carries the time from death to replacement."""
    life = running()
    effects = life.exited(Exit(10, signal=9), 5 * NS)
    assert effects == [Spawn("a", "")]
    exits = told(life.spawned(11, 5 * NS + 2_000_000), "exit")
    assert (exits[0]["t_mono_ns"], exits[0]["replaced_pid"], exits[0]["replaced_ms"]) == (5 * NS, 11, 2.0)


def test_a_program_that_cannot_be_executed_waits() -> None:
    """Pins that no burst is spent on what cannot succeed."""
    life = Lifecycle(plan())
    life.start("")
    effects = life.refused("x: No such file", 0)
    assert told(effects, "notice")[0]["what"] == "exec_failed"
    assert (life.state, life.due_ns) == ("backoff", NS)


@pytest.mark.parametrize("verb", VERBS)
def test_a_newer_order_ends_an_older_one(verb: str) -> None:
    """Pins that every order is answered: the one that is pending when the next comes fails, and says why."""
    life = running()
    obey(life, Order("1", "stop", "a"), 0)
    effects = obey(life, Order("2", verb, "a", profile="low" if verb == "degrade" else ""), 1)
    assert told(effects, "done")[0] == {"type": "done", "id": "1", "ok": False, "detail": f"superseded by {verb}", "ms": 0.0}


def test_restart_of_one_that_is_being_stopped() -> None:
    """Pins that the last order counts: stop, then start, leaves it running."""
    life = running()
    obey(life, Order("1", "stop", "a"), 0)
    obey(life, Order("2", "start", "a"), 0)
    assert life.exited(Exit(10, signal=15), 1) == [Spawn("a", "")]
    assert told(life.spawned(11, 2), "done")[0]["id"] == "2"


def test_degrade_and_restore() -> None:
    """Pins the way without a restart, the one with it, and that the profile survives a restart."""
    life = running()
    assert WriteProfile("a", "low") in obey(life, Order("1", "degrade", "a", profile="low"), 0)
    assert told(heard(life, Said(profile="low"), 1), "done")[0]["ok"] is True
    assert life.exited(Exit(10, signal=9), 2) == [Spawn("a", "low")]
    life.spawned(11, 3)
    heard(life, Said(ready=True), 4)
    obey(life, Order("2", "restore", "a"), 5)
    effects = life.due(5 + int(CONFIRM_S * NS))
    assert Signal("a", signal.SIGTERM, group=True) in effects
    assert life.exited(Exit(11, signal=15), 6 * NS) == [Spawn("a", "")]
    assert told(life.spawned(12, 6 * NS), "done")[0]["id"] == "2"


def test_a_hold_lets_it_run_and_stay_down() -> None:
    """Pins hold and resume, for one that runs and for one that waits for its next try."""
    life = running()
    obey(life, Order("1", "hold", "a"), 0)
    assert life.state == "running"
    life.exited(Exit(10, code=0), 1)
    assert (life.state, life.due_ns) == ("held", None)
    assert Spawn("a", "") in obey(life, Order("2", "resume", "a"), 2)
    life.refused("gone", 3)
    obey(life, Order("3", "hold", "a"), 4)
    assert (life.state, life.due_ns) == ("held", None)


def test_start_and_stop_order_of_all() -> None:
    """Pins that each waits for those before it, when starting until they are ready, when stopping until they have ended."""
    crew = Crew([plan("c", after=("b",)), plan("b", after=("a",), notify="ready"), plan("a")])
    assert [one for one in crew.begin(0) if isinstance(one, Spawn)] == [Spawn("a", "")]
    crew.lives["a"].spawned(1, 0)
    assert crew.settle(0) == [Spawn("b", "")]
    crew.lives["b"].spawned(2, 0)
    assert crew.settle(0) == []
    heard(crew.lives["b"], Said(ready=True), 0)
    assert crew.settle(0) == [Spawn("c", "")]
    crew.lives["c"].spawned(3, 0)
    assert [one.name for one in crew.close(0) if isinstance(one, Signal)] == ["c", "c"]
    assert crew.settle(0) == []
    crew.lives["c"].exited(Exit(3, code=0), 0)
    assert {one.name for one in crew.settle(0) if isinstance(one, Signal)} == {"b"}
    assert not crew.done


def test_an_order_to_start_keeps_the_order_of_all() -> None:
    """Pins that after a stop of all (safe mode) `start` waits for those before it as the first start did, and is answered."""
    crew = Crew([plan("b", after=("a",)), plan("a", notify="ready")])
    crew.begin(0)
    for name in "ab":
        crew.obey(Order(f"stop-{name}", "stop", name), 0)
    effects = crew.obey(Order("1", "start", "b"), 1)
    assert [(one["id"], one["ok"]) for one in told(effects, "done")] == [("1", True)]
    assert (crew.lives["b"].state, crew.lives["b"].reason) == ("starting", "waits for a")
    assert crew.settle(1) == []
    assert Spawn("a", "") in crew.obey(Order("2", "start", "a"), 1)
    crew.lives["a"].spawned(1, 1)
    heard(crew.lives["a"], Said(ready=True), 2)
    assert crew.settle(2) == [Spawn("b", "")]


_SAID = {"ready": Said(ready=True), "stopping": Said(stopping=True), "reload": Said(reloading=True), "beat": Said(beat=True)}
_EVENTS = st.lists(
    st.one_of(
        st.sampled_from(["exit", "crash", "due", "ready", "stopping", "reload", "beat"]),
        st.sampled_from(sorted(TABLE)).map(lambda verb: f"order {verb}"),
    ),
    max_size=40,
)


def _happens(life: Lifecycle, event: str, number: str, now: int) -> Effects:
    if event.startswith("order "):
        verb = event.removeprefix("order ")
        return obey(life, Order(number, verb, "a", profile="low" if verb == "degrade" else ""), now)
    if event in _SAID:
        return heard(life, _SAID[event], now)
    if event == "due" and life.due_ns is not None:
        return life.due(life.due_ns)
    if event in {"exit", "crash"} and life.pid is not None:
        return life.exited(Exit(life.pid, code=0) if event == "exit" else Exit(life.pid, signal=11), now)
    return []


@given(_EVENTS, st.sampled_from(["none", "ready", "watchdog"]), st.booleans())
def test_any_sequence_keeps_the_rules(events: list[str], notify: str, refuses: bool) -> None:  # noqa: FBT001 - drawn
    """Pins for any story: one process at most, every order answered once; a process, a next try, or a stop on purpose."""
    life, pids, now, answered, given_ids = Lifecycle(plan(notify=notify)), count(10), 0, list[str](), list[str]()

    def carry_out(effects: Effects) -> None:
        answered.extend(str(one["id"]) for one in told(effects, "done"))
        for one in told(effects, "state"):
            assert one["state"] in STATES
        for effect in effects:
            if isinstance(effect, Spawn):
                assert life.pid is None
                carry_out(life.refused("no", now) if refuses and now % 3 == 0 else life.spawned(next(pids), now))
            assert not isinstance(effect, Signal) or life.pid is not None

    carry_out(life.start(""))
    for number, event in enumerate(events):
        now += NS
        while life.due_ns is not None and life.due_ns <= now:
            carry_out(life.due(now))
        if event.startswith("order "):
            given_ids.append(str(number))
        carry_out(_happens(life, event, str(number), now))
        assert life.pid is not None or life.due_ns is not None or life.state in {"stopped", "held"}
    pending = [life.pending[0].id] if life.pending else []
    assert sorted(answered + pending) == sorted(given_ids)
