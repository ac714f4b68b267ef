"""agentctl watchdog, over a living agentd and without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.commands.conftest import Box, Replies, status

Serve = Callable[[Replies], None]
ARMED = {
    "name": "watchdog0",
    "kind": "kernel",
    "state": "ok",
    "condition": "armed",
    "owner": "agentd",
    "identity": "iTCO_wdt",
    "hardware": True,
    "ttl_s": 60.0,
    "margin_s": 55.5,
    "margin_p1_s": 49.1,
    "misses": 0,
    "feeds": 8640,
    "last_rung": None,
    "evidence": "kmsg",
    "pretimeout_s": 10,
    "nowayout": False,
    "reason": "",
    "remedy": "",
}
BUSY = ARMED | {
    "name": "watchdog1",
    "state": "degraded",
    "condition": "busy",
    "owner": None,
    "margin_s": None,
    "margin_p1_s": None,
    "reason": "/dev/watchdog1 is already open: watchdogd (pid 7)",
    "remedy": "one owner only",
}
RESET = {
    "cause": "watchdog",
    "confidence": "high",
    "reason": "supervisor: camera-1 missed its deadline",
    "evidence": ["intent"],
}


FEEDING = {"memory": "locked", "feeding_thread": "real-time, FIFO 10", "oom_score_adj": -500, "why": "nobody else feeds one"}


def served(serve: Serve, *rows: dict[str, Any]) -> None:
    """Have agentd tell of `rows`."""
    serve({"status": [{"ok": True, "result": status(watchdogs=list(rows), feeding=FEEDING, last_reset=RESET)}] * 4})


def test_json_has_every_key_of_every_watchdog(box: Box, serve: Serve) -> None:
    """Pins the keys of each row, the view of the kernel itself, and the last reset."""
    served(serve, ARMED, BUSY)
    ran = box.agentctl("watchdog", "--json")
    assert (ran.code, ran.json["schema"]) == (0, "gatewarden.watchdog/1")
    assert ran.json["watchdogs"] == [ARMED, BUSY]
    assert ran.json["last_reset"] == RESET
    assert ran.json["feeding"] == FEEDING
    assert isinstance(ran.json["kernel"], list)


def test_people_see_margins_owners_and_reasons(box: Box, serve: Serve) -> None:
    """Pins the table and the last reset below it."""
    served(serve, ARMED, BUSY)
    out = box.agentctl("watchdog").out
    assert out.startswith("WATCHDOG ")
    assert "49.1 s" in out
    assert "already open: watchdogd (pid 7)" in out
    assert "last reset: watchdog (confidence high)\n  supervisor: camera-1 missed its deadline" in out


def test_a_machine_without_any_says_what_that_means(box: Box, serve: Serve) -> None:
    """Pins the empty case."""
    served(serve)
    assert "a machine that hangs stays hung" in box.agentctl("watchdog").out


def test_without_agentd_the_kernel_is_still_asked(box: Box) -> None:
    """Pins exit 3, last words, and the facts of /sys/class/watchdog."""
    ran = box.agentctl("watchdog", "--json")
    assert ran.code == 3
    assert ran.json["watchdogs"] == []
    assert "not_running" in ran.json
    assert "kernel" in ran.json
