"""agentctl race scan over snapshots of a stub agentd: findings, their order, what people see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.linux import livepatch
from tests.commands.conftest import Box, Replies

Serve = Callable[[Replies], None]
SEEN = {"starts": 10, "expiries": 8, "cancels": 3, "deletes": 0, "frees": 0, "frees_skipped": 0}


def row(transition: str, callback: str, count: int, **more: Any) -> dict[str, Any]:
    """Give one suspicion: CPU 1 against CPU 0."""
    side = {"cpu": 1, "pid": 7, "comm": "insmod", "context": "task", "symbol": "rx_arm+0x5/0x20 [mine]", "t_ns": 9000}
    other = {"cpu": 0, "pid": 0, "comm": "swapper/0", "context": "hardirq", "symbol": "hrtimer_interrupt+0x1", "t_ns": 2000}
    made = {"transition": transition, "callback": callback, "kind": "hrtimer", "timer": "0xf00", "confirmed": "kernel"}
    sides = {"actor": {**side, "stack": ["rx_arm+0x5/0x20 [mine]"]}, "other": {**other, "stack": ["hrtimer_interrupt+0x1"]}}
    return {**made, "count": count, "by_kernel": count, "value": 0, "distance_us": 7.0, **sides, **more}


def snapshot(found: dict[str, Any], starts: int, **more: Any) -> dict[str, Any]:
    """Give agentd's answer."""
    programs = ["timer_start_btf", "timer_delete_kprobe"]
    return {"found": found, "seen": {**SEEN, "starts": starts}, "lost": 0, "misses": 0, "programs": programs, **more}


def scan(box: Box, serve: Serve, before: dict[str, Any], after: dict[str, Any], *options: str) -> Any:
    """Run it between two snapshots."""
    serve({"snapshot timer_race": [{"result": before}, {"result": before}, {"result": after}]})
    return box.agentctl("race", "scan", "--seconds", "0.1", *options)


def test_findings_are_of_the_interval_and_faults_come_first(box: Box, serve: Serve) -> None:
    """Pins the JSON: class, verdict, both sides, counts of the interval, one callback and actor as one; exit 1 for a fault."""
    old = {"a": row("start_running", "rx_cb [mine]", 2)}
    new = {
        "d": row("stuck", "tick_nohz_handler", 1),
        "a": row("start_running", "rx_cb [mine]", 5),
        "b": row("start_running", "rx_cb [mine]", 4),
        "c": row("delete_running", "rx_cb [mine]", 1),
    }
    ran = scan(box, serve, snapshot(old, 10), snapshot(new, 25), "--json")
    found = ran.json["findings"]
    assert [(item["class"], item["verdict"], item["count"]) for item in found] == [
        ("F2", "fault", 7),
        ("F3", "suspect", 1),
        ("F8", "benign", 1),
    ]
    first = found[0]
    assert (first["callback"], first["actor"], first["timer"]) == ("rx_cb [mine]", "rx_arm+0x5/0x20 [mine]", "0xf00")
    assert (first["cpus"], first["confirmed"], set(first["stacks"])) == ([1, 0], "kernel", {"actor", "other"})
    assert (ran.code, ran.json["tier"], ran.json["seen"]["starts"], ran.json["lost"]) == (1, "A", 15, 0)


def test_nothing_is_exit_zero(box: Box, serve: Serve) -> None:
    """Pins that suspicions alone do not fail a scan."""
    ran = scan(box, serve, snapshot({}, 1), snapshot({"c": row("delete_running", "rx_cb", 1)}, 2))
    assert ran.code == 0
    assert "suspect  F3 rx_cb" in ran.out


@pytest.mark.parametrize(("gap", "told"), [({}, ["state"]), ({"lost": 1}, []), ({"misses": 3}, [])])
def test_our_own_record_is_void_after_a_loss(box: Box, serve: Serve, gap: dict[str, int], told: list[str]) -> None:
    """Pins that what only our record of entry and exit says is told while nothing was lost, and not after."""
    state = {"a": row("start_running", "rx_cb", 3, confirmed="state", by_kernel=0)}
    found = scan(box, serve, snapshot({}, 1), snapshot(state, 2, **gap), "--json").json["findings"]
    assert [item["confirmed"] for item in found] == told


def test_people_see_both_sides(box: Box, serve: Serve) -> None:
    """Pins the view: verdict, class, title, who and against whom, stacks; the benign in a table; foreign text harmless."""
    new = {"a": row("start_running", "rx\x1b[2J", 5), "d": row("stuck", "tick_nohz_handler", 1)}
    out = scan(box, serve, snapshot({}, 1), snapshot(new, 25)).out
    for wanted in (
        "tier A, 0.1 s: 24 starts",
        "fault  F2 rx\\x1b[2J: started while its callback runs elsewhere, 5 times (confirmed by kernel, timer 0xf00)",
        "  who: CPU 1, task, insmod (7)",
        "  against, 7 us before: CPU 0, hardirq, swapper/0 (0)",
        "      rx_arm+0x5/0x20 [mine]",
        "tick_nohz_handler  F8",
    ):
        assert wanted in out, out


@pytest.mark.parametrize("garbage", [{"found": 7}, {"found": {"a": 5}}, {"found": {"a": {"count": 3}}}, {}])
def test_garbage_in_snapshots_is_survived(box: Box, serve: Serve, garbage: dict[str, Any]) -> None:
    """Pins that snapshots of a wrong form are read as far as they go."""
    ran = scan(box, serve, garbage, garbage)
    assert (ran.code, "Traceback" in ran.err) == (0, False)


@pytest.mark.parametrize("options", [("scan", "--frees", "x"), ("scan", "--seconds", "0"), ("look",), ()])
def test_bad_usage_is_one_line(box: Box, options: tuple[str, ...]) -> None:
    """Pins exit 2 and one line for what cannot be asked."""
    ran = box.agentctl("race", *options)
    assert (ran.code, ran.err.count("\n")) == (2, 1)


def test_live_patches_are_listed(tmp_path: Path) -> None:
    """Pins what sysfs says of a patch: on, in transition, which functions it replaces; none without the folder."""
    function = tmp_path / "repair" / "my_driver" / "rx_cb,1"
    function.mkdir(parents=True)
    (tmp_path / "repair/enabled").write_text("1\n")
    (tmp_path / "repair/transition").write_text("0\n")
    assert livepatch.read(tmp_path) == [
        {"name": "repair", "enabled": True, "transition": False, "functions": ["my_driver:rx_cb"]}
    ]
    assert livepatch.read(tmp_path / "absent") == []
