"""What counts as required work: of units and containers, and in safe mode."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent import config
from agent.linux.loop import EpollLoop
from agent.model import Data
from agent.resets.causes import OPERATORS_CYCLE
from agent.watchdogs.guarding import Guarding, sign
from tests.brokers import wait_for
from tests.doubles import HandClock


@pytest.mark.parametrize("parent", ["unit", "container"])
@pytest.mark.parametrize(
    ("state", "how", "seconds"),
    [
        ("running", "reports", 0.0),
        ("backoff", "excused", 20.0),
        ("failed", "excused", 20.0),  # the ladder has its time; a service that stays dead must not be fed for ever
        ("stopped", "silent", 0.0),
        ("unknown", "reports", 0.0),
    ],
)
def test_what_a_service_proves(parent: str, state: str, how: str, seconds: float) -> None:
    """Pins that one which its parent gave up is excused, no report; and that without anybody who tells it counts as alive."""
    assert sign({"parent": parent, "state": state, "deadline_s": None, "margin_s": None}) == (how, seconds)


@dataclass
class Lease:
    """A feeder that counts."""

    name: str = "mcu"
    ttl_s: float = 60.0
    feeds: int = 0

    def feed(self) -> None:
        """Count."""
        self.feeds += 1


def test_the_last_words_tell_of_an_operators_power_cycle(lab_config: Callable[..., Path]) -> None:
    """Pins that they are on the disk before the power goes, and are taken back if it does not go."""
    clock, loop, line = HandClock(), EpollLoop(lambda _name, _error: None), list[Callable[[], None]]()

    def later(job: Callable[[], None]) -> bool:
        line.append(job)
        return True

    settings = config.check(lab_config('[watchdog]\nmode = "off"\n'))
    one = Guarding(settings, "b" * 32, clock, loop, later, lambda _found: None, lambda _text: None)
    kept = settings.paths.state_dir / "intent.json"
    for comes, phase in ((True, "act"), (False, "run")):
        one.power_goes(comes)
        while line:
            line.pop(0)()
        found = json.loads(kept.read_text())
        assert (found["phase"], found["act"]) == (phase, OPERATORS_CYCLE if comes else "")
    one.close()
    loop.close()


def test_safe_mode_is_no_reason_to_reset_the_machine(lab_config: Callable[..., Path]) -> None:
    """Pins that a required workload which safe mode has stopped holds up no feed, and has its time to start afterwards."""
    workload = '[watchdog]\nmode = "off"\n[[workload]]\nname = "camera-1"\ncommand = ["/bin/true"]\n'
    clock, loop, lease = HandClock(), EpollLoop(lambda _name, _error: None), Lease()
    settings = config.check(lab_config(workload))
    one = Guarding(settings, "b" * 32, clock, loop, lambda _job: True, lambda _found: None, lambda _text: None)
    one.arm()
    one.watchdogs.add(lease, dict)
    stopped: Data = {"parent": "keeper", "state": "stopped"}
    starts: Data = {"parent": "keeper", "state": "starting", "phase": "start", "deadline_s": 120.0, "margin_s": 100.0}
    steps = ((stopped, False, 0), (stopped, True, 1), (stopped, True, 2), (starts, False, 3), (stopped, False, 3))
    for row, safe, feeds in steps:
        clock.pass_s(1800)
        one.tick({"camera-1": row}, safe=safe)
        wait_for(lambda feeds=feeds: lease.feeds == feeds, "fed")  # type: ignore[misc]
    one.close()
    assert lease.feeds == 3
    loop.close()
