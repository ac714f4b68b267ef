"""ladder: what holds for any history of findings, holds, clocks and restarts."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model import Decision, State
from agent.policies._rungs import ENTRIES, RUNGS, Rung
from agent.policies.ladder import NS, Ladder
from tests.policies.climbing import ALL, CAMERA, finding

NAMES = [one.name for one in ALL]
BY_NAME = {rung.name: rung for rung in RUNGS}
# (what, seconds that pass before: also none, or backwards, workload, cause)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["critical", "critical", "ok", "tick", "tick", "hold", "resume", "again"]),
        st.sampled_from([0, 0, 1, 10, 10, 60, 130, 700, 4000, -5]),
        st.sampled_from(NAMES),
        st.sampled_from(sorted(ENTRIES)),
    ),
    max_size=120,
)
Taken = list[tuple[int, Decision]]


def play(steps: list[tuple[str, int, str, str]]) -> tuple[Ladder, Taken, int]:
    """Give the ladder after `steps`, what it decided and when, and the last time; holds are of 300 s."""
    ladder = Ladder("boot")
    ladder.learn(ALL, mcu=True, supervised=["unit"])
    now, taken = 1000, list[tuple[int, Decision]]()
    for what, seconds, name, cause in steps:
        now = max(0, now + seconds)
        if what == "hold":
            ladder.hold(name, (now + 300) * NS, "x")
        elif what == "resume":
            ladder.resume(name)
        elif what == "again":
            kept = json.loads(json.dumps(ladder.plain(now * NS)))
            ladder = Ladder("boot")
            ladder.restore(kept, now * NS)
            ladder.learn(ALL, mcu=True, supervised=["unit"])
        elif what == "tick":
            taken += [(now, one) for one in ladder.tick(now * NS)]
        else:
            state: State = "critical" if what == "critical" else "ok"
            taken += [(now, one) for one in ladder.decide(finding(now, name, state, cause))]
        for one in NAMES:  # whatever happened: a row can be shown, and a next look is known
            ladder.row(one, now * NS)
        ladder.next_due_ns()
    return ladder, taken, now


def scope(rung: Rung, decision: Decision) -> str:
    """Give what the budget counts for."""
    return rung.name if rung.machine else f"{rung.name}/{decision.finding.subject}"


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_no_budget_and_no_cool_down_is_ever_exceeded(steps: list[tuple[str, int, str, str]]) -> None:
    """In any order, also after agentd came back: at most the budget in every window, never twice within a cool-down."""
    _ladder, taken, _now = play(steps)
    times: dict[str, list[int]] = defaultdict(list)
    for second, decision in taken:
        if decision.finding.detector != "ladder":  # a step back up is no rung
            times[scope(BY_NAME[decision.action], decision)].append(second)
    for key, seconds in times.items():
        rung = BY_NAME[key.partition("/")[0]]
        forward = [max(seconds[: index + 1]) for index in range(len(seconds))]  # the clock may have gone back in between
        for index in range(rung.budget, len(forward)):
            assert forward[index] - forward[index - rung.budget] >= rung.window_s
        assert all(later - sooner >= rung.cooldown_s for sooner, later in pairwise(forward))


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_there_is_always_a_next_rung_and_it_comes(steps: list[tuple[str, int, str, str]]) -> None:
    """Whatever happened: what is still critical has a next rung with its time, and at that time it is taken."""
    ladder, _taken, now = play(steps)
    ladder.resume(None)
    list(ladder.decide(finding(now, "camera")))
    for _ in range(20):
        row = ladder.row("camera", now * NS)
        wait = row["next_in_s"]
        assert row["next_rung"] in BY_NAME
        assert isinstance(wait, float | int)
        assert wait <= 86400 + 3600
        due = ladder.next_due_ns()
        assert due is not None
        now += int(wait) + 1
        assert any(one.finding.subject == "camera" for one in ladder.tick(now * NS))


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_nothing_is_decided_during_a_hold(steps: list[tuple[str, int, str, str]]) -> None:
    """With everything on hold no history leads to a decision."""
    ladder, _taken, now = play(steps)
    ladder.hold(None, 10**9 * NS, "hands off")
    found = []
    for what, seconds, name, cause in steps:
        now = max(0, now + seconds)
        state: State = "critical" if what == "critical" else "ok"
        found += [*ladder.tick(now * NS), *ladder.decide(finding(now, name, state, cause))]
    assert found == []


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_decisions_name_known_workloads_and_their_own_profiles(steps: list[tuple[str, int, str, str]]) -> None:
    """An action is never told of a workload or a profile that is not configured; who is on hold is not degraded either."""
    profiles = {one.name: set(one.degrade) for one in ALL}
    for _second, decision in play(steps)[1]:
        name = decision.arguments["workload"]
        assert name in profiles
        assert decision.action in {*BY_NAME, "restore"}
        if decision.action == "degrade":
            assert decision.arguments["profile"] in profiles[str(name)]


@given(st.lists(st.sampled_from([0, 1, 10, -100]), max_size=60))
def test_ticks_alone_change_nothing(seconds: list[int]) -> None:
    """Time that stands still, passes or goes back decides nothing by itself."""
    ladder = Ladder("boot")
    ladder.learn((CAMERA,), mcu=True)
    now = 10_000
    for step in seconds:
        now += step
        assert list(ladder.tick(now * NS)) == []
    assert ladder.revision == 0
