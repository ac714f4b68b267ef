"""The workloads and a real agentd that is killed and replaced, again and again: they do not notice."""

from __future__ import annotations

import os
import signal
from contextlib import ExitStack

import pytest

from tests.agents import agent
from tests.brokers import wait_for
from tests.keepers import LabConfig, keeper, python, workload

pytestmark = pytest.mark.root

KILLS = 20
BEATS = python("from agent import watch; import time\nwith watch.Watch() as me:\n while 1: me.beat(done=1); time.sleep(.1)")


def test_twenty_agentds_are_killed_and_no_workload_restarts(lab_config: LabConfig) -> None:
    """Pins the point of a keeper: 20 x kill -9 and a new agentd, every pid stays; who dies without an agentd is replaced."""
    names = ("beating", "sleeping", "dying")
    text = (
        workload("beating", BEATS, notify="watchdog")
        + workload("sleeping", ["sleep", "1000"])
        + workload("dying", ["sleep", "1000"])
    )
    config = lab_config("[probes]\nenabled = []\n[detectors]\nenabled = []\n" + text)
    with keeper(config) as found, found.client() as client:
        client.wait(type="state", name="beating", state="running")
        pids = {name: client.state(name)["pid"] for name in names}
        for number in range(KILLS):
            with ExitStack() as stack:
                daemon = stack.enter_context(agent(config))
                daemon.end(signal.SIGKILL)
            if number == KILLS // 2:  # with no agentd there at all
                os.kill(pids["dying"], signal.SIGKILL)
                pids["dying"] = client.wait(type="exit", name="dying")["replaced_pid"]
            client.read()
            assert {name: client.state(name)["pid"] for name in names} == pids, f"after kill {number + 1}"
        assert [one["name"] for one in client.of(type="exit")] == ["dying"]
        with agent(config) as daemon:
            wait_for(lambda: _pids(daemon.status()) == pids, lambda: f"agentd knows them: {daemon.status()['workloads']}")


def _pids(status: dict[str, list[dict[str, object]]]) -> dict[object, object]:
    return {row["name"]: row.get("pid") for row in status["workloads"]}
