"""A container as a workload: docker's socket as it answers, a real process as its main one, from the crash to the restart."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.config import Workload
from agent.linux import containers
from agent.linux.clock import SystemClock
from agent.linux.loop import EpollLoop
from agent.linux.servicestate import ServiceState
from agent.model import Sighting
from agent.outside.services import Services
from tests.linux.test_services import container, docker


def test_a_container_dies_and_is_started_again(tmp_path: Path) -> None:
    """Pins one without a restart policy: its end at once, its exit code, given up; our restart, and the new process."""
    told: list[Sighting] = []
    path = tmp_path / "docker.sock"
    loop = EpollLoop(lambda name, error: told.append(Sighting(0, name, "fault", str(error), "error", {})))

    def ask(one: Workload) -> ServiceState:
        return containers.read(one.container or "", (path,))

    def submit(job: Callable[[], None]) -> bool:
        threading.Thread(target=job).start()
        return True

    services = Services([Workload("detector", container="b")], loop, SystemClock(), ask, submit, told.extend)
    with docker(path) as api, subprocess.Popen(["sleep", "300"]) as first, subprocess.Popen(["sleep", "300"]) as second:

        def answers(**state: Any) -> None:
            api.answers["GET /containers/b/json"] = (200, container(**state))

        def until(state: str) -> None:
            loop.once(10, loop.stop, "limit")

            def look() -> None:
                found = [one for one in told if one.kind == "workload.state"]
                if found and found[-1].data["state"] == state:
                    loop.stop()
                else:
                    loop.once(0.01, look, "look")

            look()
            loop.run()

        answers(status="running", Pid=first.pid)
        services.start()
        until("running")
        answers(status="exited", ExitCode=139)
        first.kill()
        first.wait()
        until("failed")
        api.answers["POST /containers/b/restart?t=10"] = (204, b"")
        assert containers.restart("b", (path,)) == "container b was restarted"
        answers(status="running", Pid=second.pid)
        until("running")
        second.kill()
    services.close()
    loop.close()
    kinds = [(one.kind, one.data.get("state"), one.data.get("signal")) for one in told]
    assert kinds == [
        ("workload.state", "running", None),
        ("workload.exit", None, 11),
        ("workload.state", "failed", None),
        ("workload.state", "running", None),
    ]
    assert told[2].data["reason"] == "exited with 139"
    assert told[3].data["pid"] == second.pid
    assert json.dumps([one.data for one in told])
