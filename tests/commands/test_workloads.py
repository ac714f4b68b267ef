"""agentctl workloads, hold, resume."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.commands.conftest import Box, Replies, status

Serve = Callable[[Replies], None]
ROW: dict[str, Any] = {
    "name": "camera-1",
    "state": "running",
    "pid": 77,
    "restarts": 2,
    "deadline_s": 6.8,
    "margin_s": 5.25,
    "margin_p1_s": 4.0,
    "misses": 1,
    "last_rung": "terminate",
    "next_rung": "restart",
    "last_recovery_ms": 912.5,
    "hold_until": None,
}


def test_the_json_has_exactly_the_keys_of_the_contract(box: Box, serve: Serve) -> None:
    """Pins the object that consumers read: these keys, whatever else the status says of a workload."""
    serve({"status": [{"result": status(workloads=[{**ROW, "phase": "run", "proven": True}])}]})
    ran = box.agentctl("workloads", "--json")
    assert (ran.code, ran.json) == (0, {"schema": "gatewarden.workloads/1", "workloads": [ROW]})


def test_people_see_what_is_to_be_said_of_each(box: Box, serve: Serve) -> None:
    """Pins the table, and below it the reason, the hold, the profile, and that nothing proves its life."""
    more = {
        "proven": False,
        "hold_until": 1_769_860_800.0,
        "hold_why": "lens\x1b[2J",
        "profile": "low",
        "reason": "exit code 3",
    }
    serve({"status": [{"result": status(workloads=[{**ROW, **more, "next_in_s": 12.0}])}]})
    out = box.agentctl("workloads", COLUMNS="200").out
    head, row, *rest = out.splitlines()
    assert head.split()[:3] == ["WORKLOAD", "STATE", "PID"]
    assert row.split()[:5] == ["camera-1", "running", "77", "2", "6.8"]
    text = " ".join(" ".join(rest).split())
    for part in ("exit code 3", "not proven", "on hold until 2026-01-31T12:00:00.000Z: lens\\x1b[2J", "profile low", "12.0 s"):
        assert part in text


def test_without_agentd_it_is_what_was_last_known(box: Box) -> None:
    """Pins exit code 3 and the keys that say so."""
    ran = box.agentctl("workloads", "--json")
    assert (ran.code, ran.json["workloads"], ran.json["stale_s"]) == (3, [], None)


def test_hold_and_resume_are_orders(box: Box, serve: Serve) -> None:
    """Pins both forms of both answers."""
    held = {"workload": None, "until": 1_769_860_800.0, "why": "lens"}
    serve({"hold": [{"result": held}], "resume": [{"result": {"workload": None, "ended": False}}]})
    assert box.agentctl("hold", "30m", "--why", "lens", "--json").json == {"schema": "gatewarden.hold/1", **held}
    assert box.agentctl("hold", "30m", "--why", "lens").out == "everything is on hold until 2026-01-31T12:00:00.000Z: lens\n"
    assert box.agentctl("resume").out == "there was no such hold\n"
    assert box.agentctl("resume", "--json").json == {"schema": "gatewarden.resume/1", "workload": None, "ended": False}


@pytest.mark.parametrize("arguments", [("30m", "camera-1", "--why", "lens"), ("30m", "--why", "lens", "camera-1")])
def test_a_hold_of_one_workload_in_either_order(box: Box, serve: Serve, arguments: tuple[str, ...]) -> None:
    """Pins that the name may stand before or behind the reason."""
    serve({"hold": [{"result": {"workload": "camera-1", "until": 1_769_860_800.0, "why": "lens"}}]})
    assert box.agentctl("hold", *arguments).out == "camera-1 is on hold until 2026-01-31T12:00:00.000Z: lens\n"


@pytest.mark.parametrize(
    "arguments", [("0m", "--why", "x"), ("soon", "--why", "x"), ("30m",), ("30m", "--why", "a", "new", "lens")]
)
def test_a_hold_needs_a_time_and_a_reason(box: Box, arguments: tuple[str, ...]) -> None:
    """Pins exit code 2 before anything is asked."""
    assert box.agentctl("hold", *arguments).code == 2


def test_without_agentd_nothing_can_be_held(box: Box) -> None:
    """Pins exit code 3."""
    assert box.agentctl("hold", "30m", "--why", "x").code == 3
