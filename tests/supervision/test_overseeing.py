"""Watchdogs that come and go while agentd runs: how often it takes its turn, and how long a deadline may be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from agent import config
from agent.linux.loop import EpollLoop
from agent.supervision.overseeing import Overseeing
from agent.supervision.pace import Pace
from agent.watchdogs.guarding import Guarding
from tests.doubles import HandClock
from tests.supervision.test_supervising import TWO, Part


class Lease:
    """A feeder that counts."""

    name = "watchdog1"
    ttl_s = 0.15
    feeds = 0

    def feed(self) -> None:
        """Count."""
        self.feeds += 1


def test_a_watchdog_that_is_taken_later_sets_the_pace_and_the_ceiling(lab_config: Callable[..., Path]) -> None:
    """Pins that a short time-out is served from the turn that took it on, and bounds the deadlines, until it goes."""
    path = lab_config('[watchdog]\nmode = "off"\n' + TWO)
    part, loop, lease = Part(path), EpollLoop(lambda _name, _error: None), Lease()
    clock, settings = HandClock(), config.check(path)
    guarding = Guarding(settings, "b" * 32, clock, loop, lambda _job: True, lambda _found: None, lambda _text: None)
    quiet = cast("Any", SimpleNamespace(last_rung=None, ladder=SimpleNamespace(safe="loop")))
    one = Overseeing(loop, part.one, quiet, guarding, cast("Any", None), Pace(loop, 10.0))
    guarding.arm()
    guarding.watchdogs.add(lease, dict)
    one.tick()
    assert [event.data["ceiling_s"] for event in part.ear.heard if event.kind == "workload.known"] == [0.15, 0.15]
    loop.once(0.4, loop.stop, "end")
    loop.run()
    assert lease.feeds >= 4  # nobody but the pace called
    lease.ttl_s = 60.0
    one.tick()
    loop.once(0.2, loop.stop, "end")
    before = lease.feeds
    loop.run()
    assert lease.feeds <= before + 1
    assert part.ear.heard[-1].data["ceiling_s"] == 60.0
    guarding.close()
    part.loop.close()
    loop.close()
