"""What a workload leaves behind: how long looking for it may take."""

from __future__ import annotations

import subprocess
import time

import pytest

from agent.linux.loop import EpollLoop
from agent.linux.offspring import Offspring

CROWD = 60


def test_a_sweep_does_not_wait_for_each_of_a_crowd() -> None:
    """Pins that children which seem to be ending (no environment) and do not cost a moment together, not one each."""
    loop = EpollLoop(lambda name, error: pytest.fail(f"{name}: {error}"))
    offspring = Offspring(loop, lambda _name: None, lambda name: f"GATEWARDEN={name}".encode())
    crowd = [subprocess.Popen(["/bin/sleep", "60"], env={}) for _ in range(CROWD)]
    left = subprocess.Popen(["/bin/sleep", "60"], env={"GATEWARDEN": "camera-1"})
    try:
        began = time.monotonic()
        assert offspring.sweep("camera-1", 0, anywhere=False) == [left.pid]
        assert time.monotonic() - began < CROWD * 0.02 / 2
        assert all(one.poll() is None for one in crowd)
    finally:
        for one in crowd:
            one.kill()
        for one in (*crowd, left):
            one.wait(10)
        loop.close()
