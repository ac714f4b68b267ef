"""The actions that change more than the agent: whom each asks for what, over doubles of the ports."""

from __future__ import annotations

import json

import pytest

from agent.actions import ACTIONS
from agent.errors import NotRunning, StoreError
from agent.model import Data, Outcome
from tests.actions.test_actions import decision, recovery, tools
from tests.doubles import MemoryArchive, MemoryKeeper, MemoryMachine


def done(
    name: str, arguments: Data | None = None, keeper: MemoryKeeper | None = None, machine: MemoryMachine | None = None
) -> Outcome:
    """Run one action on the workload `tick_sched_timer`, or another one that `arguments` name."""
    return ACTIONS[name](tools(ports=recovery(keeper, machine)))(decision(name, arguments=arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "order"),
    [
        ("terminate", {}, ("abort", "tick_sched_timer", None)),
        ("restart", {}, ("restart", "tick_sched_timer", None)),
        ("degrade", {"profile": "low"}, ("degrade", "tick_sched_timer", "low")),
        ("restore", {}, ("restore", "tick_sched_timer", None)),
        ("restore", {"profile": "mid"}, ("degrade", "tick_sched_timer", "mid")),
    ],
)
def test_a_command_is_the_keepers(name: str, arguments: Data, order: tuple[str, str, str | None]) -> None:
    """Pins the order that each rung gives, and that the outcome carries the keeper's words and time."""
    keeper = MemoryKeeper()
    outcome = done(name, arguments, keeper)
    assert (keeper.orders, outcome.ok) == ([order], True)
    assert outcome.data["keeper_ms"] == 1.5
    assert outcome.detail == f"{order[0]} of tick_sched_timer done"


@pytest.mark.parametrize(
    ("workload", "asked"), [("viewer", ("unit", "restart", "viewer.service")), ("recorder", ("container", "rec-1"))]
)
def test_a_unit_and_a_container_are_the_brokers(workload: str, asked: tuple[str, ...]) -> None:
    """Pins that these are restarted through the broker, and that no other order can be given to them."""
    machine, keeper = MemoryMachine(), MemoryKeeper()
    assert done("restart", {"workload": workload}, keeper, machine).ok
    assert machine.asked == [asked]
    outcome = done("terminate", {"workload": workload}, keeper, machine)
    assert not outcome.ok
    assert "takes no 'abort'" in outcome.detail
    assert keeper.orders == []


def test_what_the_keeper_refuses_is_a_failed_outcome() -> None:
    """Pins that the keeper's reason is the outcome's detail, as is its absence."""
    assert done("restart", keeper=MemoryKeeper(refusal="held")).detail == "restart: held"
    assert done("restart", keeper=MemoryKeeper(error=NotRunning("no keeper"))).detail == "restart: no keeper"


def test_dependants_follow_in_order_and_one_failure_stops_no_other() -> None:
    """Pins the order of the restarts, and that the outcome names who failed while the others were restarted."""
    machine, keeper = MemoryMachine(), MemoryKeeper()
    outcome = done("restart_dependants", {}, keeper, machine)
    assert outcome.data["restarted"] == ["tick_sched_timer", "viewer", "recorder"]
    assert (keeper.orders[0][0], machine.asked) == ("restart", [("unit", "restart", "viewer.service"), ("container", "rec-1")])
    broken, again = MemoryMachine(error=NotRunning("no broker")), MemoryKeeper()
    outcome = done("restart_dependants", {}, again, broken)
    assert not outcome.ok
    assert outcome.detail == "restart_dependants: not restarted: viewer: no broker; recorder: no broker"
    assert again.orders


@pytest.mark.parametrize(("name", "word"), [("reboot", "reboot"), ("power_cycle", "power cycle")])
def test_the_last_words_come_first(name: str, word: str) -> None:
    """Pins that the intent is declared before the machine goes down, with the decision's reason."""
    machine = MemoryMachine()
    assert done(name, machine=machine).ok
    assert machine.asked == [("intent", name, "first of its kind"), (word, "first of its kind")]


class NoBroker(MemoryMachine):
    """A machine that cannot be rebooted."""

    def reboot(self, reason: str) -> str:
        """Fail."""
        raise NotRunning(f"no broker for {reason}")


def test_an_act_that_did_not_happen_is_taken_back() -> None:
    """Pins that the next reset is not put down to a reboot that failed."""
    machine = NoBroker()
    assert done("reboot", machine=machine).detail == "reboot: no broker for first of its kind"
    assert machine.asked == [("intent", "reboot", "first of its kind"), ("revoked", "reboot")]


class FullDisk(MemoryMachine):
    """A disk that takes no last words."""

    def declare(self, act: str, reason: str) -> None:
        """Fail."""
        raise StoreError(f"no room for {act} {reason}")


def test_a_full_disk_does_not_stop_a_reboot() -> None:
    """Pins that the act goes on without its last words, and says that they are missing."""
    machine = FullDisk()
    outcome = done("reboot", machine=machine)
    assert outcome.ok
    assert "could not be kept: no room" in outcome.detail
    assert machine.asked == [("reboot", "first of its kind")]


@pytest.mark.parametrize(("name", "lacks"), [("degrade", "no profile"), ("usb_reset", "no port")])
def test_an_argument_that_lacks_is_a_failure(name: str, lacks: str) -> None:
    """Pins that nothing is guessed."""
    outcome = done(name)
    assert not outcome.ok
    assert lacks in outcome.detail


def test_a_workload_that_nobody_configured_is_refused() -> None:
    """Pins that no rung touches what is not in the configuration."""
    assert "no workload is called 'sshd'" in done("restart", {"workload": "sshd"}).detail


def test_usb_reset_names_its_port() -> None:
    """Pins that the port is passed on and told."""
    machine = MemoryMachine()
    outcome = done("usb_reset", {"port": "1-2.3"}, machine=machine)
    assert (machine.asked, outcome.data["port"]) == ([("usb", "1-2.3")], "1-2.3")


def test_capture_keeps_the_threads_of_the_workload() -> None:
    """Pins that a capture is a snapshot with what the workload's threads did."""
    ports = tools({"events": lambda _finding: []})
    assert ACTIONS["capture"](ports)(decision("capture", arguments={"workload": "viewer"})).ok
    assert isinstance(ports.archive, MemoryArchive)
    (files,) = ports.archive.kept.values()
    assert set(files) == {"decision.json", "threads.json", "events.txt"}
    assert json.loads(files["threads.json"]) == {"workload": "viewer"}
