"""What agentd makes of its probes beyond their records: tasks that stay blocked, in the running kernel."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.agents import Agent, agent, named
from tests.brokers import wait_for
from tests.kernel import live

pytestmark = [pytest.mark.kernel, pytest.mark.root, pytest.mark.host_pids]

BLOCKED = "[probes.run_queue]\nblocked_ms = 500\n[metrics]\nperiod_s = 1\n"
# The parent of a vfork() sleeps uninterruptibly (TASK_KILLABLE) until its child is gone.
VFORK = "#include <unistd.h>\nint main(void) { if (vfork() == 0) { sleep(%d); _exit(0); } return 0; }\n"


def told(found: Agent, pid: int) -> list[dict[str, Any]]:
    """Give the recorded events of a blocked task."""
    return named(found.ctl("events", "--kind", "sched.blocked")[1]["events"], "sched.blocked", pid)


def test_a_task_that_stays_blocked_is_one_event_and_a_finding(tmp_path: Path, lab_config: Callable[..., Path]) -> None:
    """It is told while it sleeps, once, not at each tick; the finding is open; its wake-up is told with all of its time."""
    program = live.compiled(tmp_path, "vforker", VFORK % 5)
    with agent(lab_config(BLOCKED)) as found, live.running(str(program)) as child:
        wait_for(lambda: told(found, child.pid), "sched.blocked of a task that sleeps")
        assert child.poll() is None
        assert ("sched_latency", "vforker") in {(row["detector"], row["subject"]) for row in found.status()["findings"]}
        child.wait()
        wait_for(lambda: len(told(found, child.pid)) > 1, "its end")
        asleep, woken = sorted((row["data"] for row in told(found, child.pid)), key=lambda data: data["blocked_us"])
    assert (asleep["waker_pid"], asleep["comm"], asleep["tgid"]) == (None, "vforker", child.pid)
    assert asleep["blocked_us"] < 5e6 < woken["blocked_us"]
    assert woken["waker_pid"] is not None
