"""The wall clock's steps, as the kernel tells them."""

from __future__ import annotations

import os
import time

import pytest

from agent.linux.clock import SystemClock
from agent.linux.clockstep import ClockStep
from agent.linux.loop import EpollLoop
from agent.model import Sighting

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.root,
    pytest.mark.skipif("GATEWARDEN_GUEST" not in os.environ, reason="sets the clock: only in a guest (make test-vm)"),
]


def test_a_step_is_told_once_with_its_size() -> None:
    """Setting the clock an hour on is one `clock.step` of 3600 s; nothing is told while it merely runs."""
    told: list[Sighting] = []

    def fail(name: str, error: Exception) -> None:
        raise AssertionError(name) from error

    loop = EpollLoop(fail)
    watch = ClockStep(loop, SystemClock(), told.append)
    loop.once(0.5, lambda: time.clock_settime(time.CLOCK_REALTIME, time.time() + 3600), "step")
    loop.once(1.5, loop.stop, "stop")
    loop.run()
    watch.close()
    loop.close()
    assert [(round(float(str(found.data["step_s"]))), found.kind) for found in told] == [(3600, "clock.step")]
