"""agentd on a machine without a watchdog: what it says of that, and of the last reset; real processes."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agents import agent
from tests.brokers import wait_for

QUICK = "[probes]\nenabled = []\n[metrics]\nperiod_s = 1\n"


def test_a_boot_is_judged_once_and_the_last_words_are_kept(lab_config: Callable[..., Path]) -> None:
    """Pins `last_reset` and its one event over a kill -9, and the intent file of this very boot."""
    path = lab_config(QUICK)
    intent = path.parent / "state/intent.json"
    with agent(path) as found:
        assert found.status()["last_reset"]["cause"] == "unknown"
        wait_for(intent.exists, "the intent file")
        assert json.loads(intent.read_text())["phase"] == "run"
        found.end(signal.SIGKILL)
    with agent(path) as found:
        assert found.status()["last_reset"]["confidence"] == "none"
        events = found.ctl("events", "--kind", "system.reset")[1]["events"]
        assert [event["data"]["cause"] for event in events] == ["unknown"]
        found.end()
    assert json.loads(intent.read_text())["phase"] == "stopped"
    assert len(json.loads((path.parent / "state/boots.json").read_text())["boots"]) == 1


@pytest.mark.skipif(Path("/dev/watchdog").exists(), reason="this machine has a watchdog, and no test may arm it")
def test_a_machine_without_a_watchdog_is_told(lab_config: Callable[..., Path]) -> None:
    """Pins the one line of doctor when nothing at all feeds a hardware watchdog, and the verb's own words."""
    with agent(lab_config(f'{QUICK}[watchdog]\nmode = "own"\n')) as found:
        checks = found.ctl("doctor")[1]["checks"]
        (fed,) = [check for check in checks if check["name"] == "feeding"]
        assert (fed["group"], fed["state"]) == ("watchdog", "degraded")
        assert fed["reason"].startswith("nothing feeds a hardware watchdog")
        code, told = found.ctl("watchdog")
        assert (code, told["watchdogs"], told["kernel"]) == (0, [], [])
