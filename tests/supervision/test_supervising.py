"""The workloads as agentd sees them: what of the keeper's messages is recorded, shown, or told of in the rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent import config
from agent.commands.workloads import KEYS
from agent.linux.loop import EpollLoop
from agent.model import Data, Event, Finding
from agent.pipeline import Pipeline
from agent.supervision.supervising import Supervising
from tests.doubles import HandClock, MemoryStore

TWO = (
    '[[workload]]\nname = "camera-1"\ncommand = ["x"]\nnotify = "watchdog"\n'
    '[[workload]]\nname = "web"\nunit = "web.service"\nprobe = { tcp = "127.0.0.1:80" }\n'
)
AT = 1_000_000_000
STATE: Data = {"type": "state", "t_mono_ns": AT, "name": "camera-1", "state": "running", "pid": 7, "reason": "", "restarts": 1}


class Ear:
    """A detector that hears everything and says nothing."""

    name = "ear"

    def __init__(self) -> None:
        self.heard: list[Event] = []

    def see(self, event: Event) -> tuple[Finding, ...]:
        """Keep it."""
        self.heard.append(event)
        return ()

    def tick(self, now_ns: int) -> tuple[Finding, ...]:  # noqa: ARG002 - of the port
        """Do nothing."""
        return ()


class Part:
    """Supervising over doubles."""

    def __init__(self, path: Path) -> None:
        self.ear, self.store, self.clock = Ear(), MemoryStore(), HandClock()
        self.faults: list[str] = []
        self.loop = EpollLoop(lambda name, error: self.faults.append(f"{name}: {error}"))
        hub = Pipeline(
            boot_id="b",
            clock=self.clock,
            store=self.store,
            detectors=[self.ear],
            policies=[],
            actions={},
            submit=lambda _decision, _job: True,
            back=lambda job: job(),
            fault=lambda name, error: self.faults.append(f"{name}: {error}"),
        )
        self.one = Supervising(config.check(path), self.loop, self.clock, hub, lambda _key: 4, self.faults.append)

    def hear(self, *messages: Data) -> None:
        """Let the keeper say something."""
        for message in messages:
            self.one._heard(message)

    def recorded(self) -> list[tuple[str, dict[str, int]]]:
        """Give the kinds of the recorded events, each with its cursors."""
        return [(str(record["kind"]), cursors) for batch, cursors in self.store.batches for record in batch]


@pytest.fixture
def part(lab_config: Callable[..., Path]) -> Iterator[Part]:
    """Give one."""
    made = Part(lab_config(TWO))
    yield made
    made.loop.close()


def test_numbered_messages_are_recorded_once(part: Part) -> None:
    """Pins that an event and the number of its message are committed together; what is known is only shown."""
    assert part.one._since("k1") == 4
    part.hear({**STATE, "seq": 5}, {**STATE, "seq": 5, "now": True}, {**STATE, "seq": 4})
    assert part.recorded() == [("workload.state", {"b/keeper/k1": 5})]
    assert [event.kind for event in part.ear.heard] == ["workload.state"] * 3


def test_beats_are_shown_and_reported(part: Part) -> None:
    """Pins that a beat reaches the detectors and the watchdogs' gate, and never the flash."""
    beaten: list[tuple[str, int]] = []
    part.one.beaten = lambda name, at_ns: beaten.append((name, at_ns))
    row: Data = {"last_ns": AT, "intervals_ms": [100.0], "watchdog_us": None, "extend_until_ns": None, "phase": "run"}
    part.hear({"type": "beats", "t_mono_ns": AT, "beats": {"camera-1": row, "nobody": row}})
    assert beaten == [("camera-1", AT)]
    assert part.recorded() == []


def test_a_bad_row_costs_the_others_nothing(part: Part) -> None:
    """Pins that the beats of one workload that cannot be read are counted, and all others of the message are heard."""
    beaten: list[str] = []
    part.one.beaten = lambda name, _at_ns: beaten.append(name)
    row: Data = {"last_ns": AT, "intervals_ms": [100.0], "watchdog_us": None, "extend_until_ns": None, "phase": "run"}
    rows: Data = {"Camera/1": row, "camera-1": row, "web": {**row, "phase": "dance"}}
    part.hear({"type": "beats", "t_mono_ns": AT, "beats": rows})
    assert (beaten, part.one.bad_messages, len(part.faults)) == (["camera-1"], 2, 2)


def test_a_row_has_the_keys_of_the_contract(part: Part) -> None:
    """Pins `status.workloads`: every key of `agentctl workloads`, with what the keeper told."""
    born: list[tuple[str, int]] = []
    part.one.born = lambda name, pid: born.append((name, pid))
    part.hear({**STATE, "seq": 5, "status": "decoding"})
    row = part.one.status()["camera-1"]
    assert row.keys() >= set(KEYS)
    assert (row["state"], row["pid"], row["restarts"], row["said"], row["parent"]) == ("running", 7, 1, "decoding", "keeper")
    assert born == [("camera-1", 7)]


def test_a_view_adds_to_its_row(part: Part) -> None:
    """Pins that what the thinking parts know of a workload stands in its row; a health check from outside is a proof."""
    part.one.views = [lambda name, now_ns: {"margin_s": 2.5, "proven": False, "deadline_s": now_ns / now_ns} if name else {}]
    rows = part.one.status()
    assert rows["camera-1"]["margin_s"] == 2.5
    assert (rows["camera-1"]["proven"], rows["web"]["proven"]) == (False, True)


def test_what_the_keeper_remembers_is_compared(part: Part) -> None:
    """Pins that the states told on a subscription, with the keeper's own holds, reach whoever knows the holds in force."""
    found: list[tuple[str, str, bool]] = []
    part.one.resumed = lambda name, state, held: found.append((name, state, held))
    part.hear(
        {**STATE, "seq": 5, "now": True, "held": True}, {**STATE, "seq": 6, "held": True}, {**STATE, "seq": 6, "now": True}
    )
    assert found == [("camera-1", "running", True), ("camera-1", "running", False)]
    part.hear({"type": "pong", "asked_ns": 5})
    assert (part.ear.heard[-1].kind, part.ear.heard[-1].data) == ("workload.told", {"until_ns": 5})


def test_the_link_comes_and_goes(part: Part) -> None:
    """Pins that both are events, that a gap is told, and that a row says why nothing is known."""
    part.hear({"type": "hello", "keeper": "k1", "pid": 1, "version": "1", "seq": 600, "lost": 88})
    part.one._changed("the keeper closed the connection")
    assert [(event.kind, event.data) for event in part.ear.heard] == [
        ("workload.link", {"up": True, "lost": 88, "version": "1"}),
        ("workload.link", {"up": False}),
    ]
    rows = part.one.status()
    assert (rows["camera-1"]["state"], rows["camera-1"]["reason"]) == (
        "unknown",
        "the keeper does not answer: the keeper closed the connection",
    )
    assert rows["web"]["reason"] == ""


def test_a_message_of_another_form_is_told_and_costs_nothing(part: Part) -> None:
    """Pins that a keeper which speaks otherwise is a fault that is told, and the next message is read."""
    part.hear({"type": "state", "seq": 5}, {**STATE, "seq": 6, "name": "nobody"}, {**STATE, "seq": 7})
    assert part.one.bad_messages == 1
    assert len(part.faults) == 1
    assert part.recorded() == [("workload.state", {"b/keeper/": 7})]


def test_each_look_shows_who_was_held_up(part: Part) -> None:
    """Pins the two samples before a silence is judged: the whole machine's, and that of each workload with a process."""
    part.hear({**STATE, "seq": 5, "pid": 1})
    part.one.look()
    kinds = [(event.kind, event.subject) for event in part.ear.heard[1:]]
    assert kinds[0] == ("machine.pressure", "psi")
    assert kinds[1:] == [("workload.starved", "camera-1")]
