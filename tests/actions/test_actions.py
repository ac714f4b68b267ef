"""The closed set of actions: what each does with its ports, and that none ever raises."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.actions import ACTIONS, Recovery, Target, Tools, bound
from agent.errors import BadRequest, StoreError
from agent.linux.files import SnapshotFolder
from agent.model import Data, Decision, Finding, Json, Severity, State, plain
from tests.doubles import HandClock, MemoryArchive, MemoryJournal, MemoryKeeper, MemoryMachine

NS = 1_000_000_000


def still(step_ns: int = 0) -> HandClock:
    """Give a clock on 2026-01-01T00:00:00.250Z."""
    return HandClock(1_767_225_600.25, 5 * NS, step_ns)


class Broken:
    """A port of any kind that always fails."""

    def __call__(self, *_arguments: object) -> Json:
        """Fail."""
        raise StoreError("broken")

    line = keep = order = unit = container_restart = usb_reset = reboot = power_cycle = declare = revoke = __call__


WORKLOADS = {
    "tick_sched_timer": Target("tick_sched_timer", "keeper", "tick_sched_timer", ("viewer", "recorder")),
    "viewer": Target("viewer", "unit", "viewer.service", ("recorder",)),
    "recorder": Target("recorder", "container", "rec-1"),
}


def recovery(keeper: MemoryKeeper | None = None, machine: MemoryMachine | None = None) -> Recovery:
    """Give ports that remember."""
    every = machine or MemoryMachine()
    return Recovery(keeper or MemoryKeeper(), every, every, every, every, WORKLOADS, lambda name: {"workload": name})


def tools(
    collect: Mapping[str, Callable[[Finding], Json]] | None = None,
    switch_off: Callable[[str], None] = lambda _probe: None,
    clock: HandClock | None = None,
    ports: Recovery | None = None,
) -> Tools:
    """Give ports that work."""
    return Tools(clock or still(), MemoryJournal(), MemoryArchive(), collect or {}, switch_off, ports or recovery())


def decision(action: str, state: State = "degraded", data: Data | None = None, arguments: Data | None = None) -> Decision:
    """Give a decision about a late timer."""
    finding = Finding(4 * NS, "timer_late", "tick_sched_timer", state, "tick_sched_timer is 12 ms late", (7, 9), data or {})
    return Decision(4 * NS, action, finding, "first of its kind", arguments or {})


def snapshot(collect: Mapping[str, Callable[[Finding], Json]], data: Data | None = None) -> Mapping[str, str]:
    """Take one and give its files."""
    ports = tools(collect)
    outcome = ACTIONS["snapshot"](ports)(decision("snapshot", data=data))
    assert outcome.ok
    assert isinstance(ports.archive, MemoryArchive)
    (files,) = ports.archive.kept.values()
    return files


def test_the_set_is_closed() -> None:
    """Pins the list of what this agent may do: a change here is a change of what it can do to a machine."""
    rungs = {"capture", "terminate", "restart", "restart_dependants", "degrade", "restore", "reboot", "power_cycle"}
    assert set(ACTIONS) == {"log", "snapshot", "probe_off", "usb_reset"} | rungs
    assert set(bound(tools())) == set(ACTIONS)


@pytest.mark.parametrize("name", ACTIONS)
def test_a_failure_is_an_outcome(name: str) -> None:
    """Pins that an action whose every port fails gives an Outcome that is not ok, with the reason."""
    broken = Broken()
    ports = Recovery(broken, broken, broken, broken, broken, WORKLOADS)  # type: ignore[arg-type]
    arguments: Data = {"probe": "timers", "profile": "low", "port": "1-2"}
    outcome = ACTIONS[name](Tools(still(), broken, broken, {}, broken, ports))(decision(name, arguments=arguments))  # type: ignore[arg-type]
    assert (outcome.action, outcome.subject, outcome.ok, outcome.data) == (name, "tick_sched_timer", False, {"ms": 0.0})
    assert outcome.detail.startswith(f"{name}: ")
    assert "broken" in outcome.detail


@pytest.mark.parametrize(("state", "severity"), [("ok", "info"), ("degraded", "warning"), ("critical", "critical")])
def test_log(state: State, severity: Severity) -> None:
    """Pins one line: the summary, who holds it about what, and why it was written, with the state's severity."""
    ports = tools()
    outcome = ACTIONS["log"](ports)(decision("log", state))
    assert outcome.ok
    assert isinstance(ports.journal, MemoryJournal)
    expected = {"detector": "timer_late", "subject": "tick_sched_timer", "state": state}
    expected |= {"reason": "first of its kind", "evidence": "7,9"}
    assert ports.journal.lines == [(severity, "tick_sched_timer is 12 ms late", expected)]


def test_probe_off() -> None:
    """Pins that the probe which the decision names is switched off; without a name, or when refused, it is a failure."""
    off: list[str] = []
    act = ACTIONS["probe_off"](tools(switch_off=off.append))
    outcome = act(decision("probe_off", arguments={"probe": "timers"}))
    assert (outcome.ok, off, outcome.data) == (True, ["timers"], {"probe": "timers", "ms": 0.0})
    assert act(decision("probe_off")).detail.startswith("probe_off: the decision names no probe")

    def refuse(probe: str) -> None:
        raise BadRequest(f"no probe {probe}")

    outcome = ACTIONS["probe_off"](tools(switch_off=refuse))(decision("probe_off", arguments={"probe": "x"}))
    assert (outcome.ok, outcome.detail) == (False, "probe_off: no probe x")


def test_snapshot_keeps_what_there_is() -> None:
    """Pins the files: the decision with its finding, JSON readers as JSON, lines as text, and the name of the entry."""
    collect: dict[str, Callable[[Finding], Json]] = {
        "pressure": lambda _finding: {"cpu": None},
        "run_queue": lambda finding: {"top": [finding.subject]},
        "kmsg": lambda _finding: ["one", "two"],
        "note": lambda _finding: "text",
    }
    ports = tools(collect)
    asked = decision("snapshot")
    outcome = ACTIONS["snapshot"](ports)(asked)
    assert isinstance(ports.archive, MemoryArchive)
    name = "20260101T000000.250Z-timer_late-tick_sched_timer"
    files = ports.archive.kept[f"/snapshots/{name}"]
    assert set(files) == {"decision.json", "pressure.json", "run_queue.json", "kmsg.txt", "note.txt"}
    assert json.loads(files["decision.json"]) == json.loads(json.dumps(plain(asked)))
    assert json.loads(files["run_queue.json"]) == {"top": ["tick_sched_timer"]}
    assert files["kmsg.txt"] == "one\ntwo\n"
    assert outcome.data == {"path": f"/snapshots/{name}", "files": sorted(files), "ms": 0.0}


def test_a_reader_that_fails_says_why_in_its_place() -> None:
    """Pins that one unreadable source costs the others nothing."""
    files = snapshot({"kmsg": Broken(), "meminfo": lambda _finding: {"MemTotal": 1}})
    assert files["kmsg.txt"] == "not readable: broken\n"
    assert json.loads(files["meminfo.json"]) == {"MemTotal": 1}


def test_slow_readers_end_the_collection() -> None:
    """Pins the bound in time: readers that come after it has passed are named as not read."""
    collect: dict[str, Callable[[Finding], Json]] = {name: (lambda _finding: {"read": True}) for name in ("a", "b", "c", "d")}
    ports = tools(collect, clock=still(step_ns=NS))
    assert ACTIONS["snapshot"](ports)(decision("snapshot")).ok
    assert isinstance(ports.archive, MemoryArchive)
    (files,) = ports.archive.kept.values()
    assert set(files) == {"decision.json", "a.json", "b.json", "c.txt", "d.txt"}
    assert "time of this snapshot was up" in files["d.txt"]


def test_stacks_of_the_evidence() -> None:
    """Pins that every stack in the finding and in the events that a reader gives stands in stacks.txt, innermost first."""
    events: Json = [{"seq": 7, "data": {"stack": ["a", "b"]}}, {"seq": 9, "data": {"stack": []}}]
    files = snapshot({"events": lambda _finding: events}, {"worst": {"stack": ["x", "y"]}})
    assert files["stacks.txt"] == "x\ny\n\na\nb\n"
    assert "stacks.txt" not in snapshot({})


@given(
    value=st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("stack"), inner),
        max_leaves=30,
    ),
    subject=st.text(),
)
def test_any_evidence_is_kept(value: Json, subject: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pins, on a real folder, that whatever a probe saw and whatever its subject is called, the snapshot is kept."""
    folder = tmp_path_factory.mktemp("any") / "snapshots"
    ports = Tools(
        still(), MemoryJournal(), SnapshotFolder(folder), {"events": lambda _finding: value}, lambda _probe: None, recovery()
    )
    finding = Finding(1, "timer_late", subject, "critical", "late", (), {"value": value})
    outcome = ACTIONS["snapshot"](ports)(Decision(1, "snapshot", finding, "test"))
    assert outcome.ok, outcome.detail
    path = Path(str(outcome.data["path"]))
    assert path.parent == folder
    assert (path / "decision.json").exists()
