"""The status object: its state is no verdict of its own."""

from __future__ import annotations

import pytest

from agent import checks, status
from agent.model import Data, Finding, Json, State
from agent.status import Identity

ROW: Data = {"name": "timers", "state": "ok", "reason": "", "remedy": "", "events": 1000, "lost": 0}
FINDING = Finding(1, "timer_late", "tick", "critical", "late")


@pytest.mark.parametrize(
    ("row", "mqtt", "findings", "state"),
    [
        ({}, {"state": "connected"}, [], "ok"),
        ({"state": "degraded"}, {"state": "connected"}, [], "degraded"),
        ({"lost": 11}, {"state": "connected"}, [], "degraded"),
        ({}, {"state": "waiting", "oldest_s": 60}, [], "ok"),
        ({}, {"state": "waiting", "oldest_s": 3700}, [], "degraded"),
        ({}, {"state": "off", "dropped": 5, "dropped_s": 60}, [], "degraded"),
        ({}, {"state": "off", "dropped": 5, "dropped_s": 90_000}, [], "ok"),
        ({}, {"state": "connected"}, [FINDING], "critical"),
    ],
)
def test_the_state_is_the_verdict_of_the_live_checks(row: Data, mqtt: Data, findings: list[Finding], state: State) -> None:
    """Pins that `status`, `doctor` and the health message cannot contradict each other over the same facts."""
    probes: list[Json] = [{**ROW, **row}]
    found = status.status(Identity("s", "g", "b", "B", "", 1), 1.0, probes, mqtt, findings, None)
    assert found["state"] == state == checks.live_verdict(found)
