"""What detectors and policies kept, with damage that JSON allows: each takes it, or says that it is not of its form."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from agent.detectors import crash_loop, deadline
from agent.errors import StoreError
from agent.policies.boots import Boots
from agent.policies.ladder import Ladder
from agent.ports import Remembers
from agent.resets import boots

NS = 10**9
ODD: tuple[Any, ...] = (None, True, -1, 1, 10**400, -(10**400), 1e308, float("inf"), float("nan"), "", "\ud800", [], {}, [[]])
ESTIMATE = {"mean_s": 1.0, "deviation_s": 0.1, "count": 40, "span_s": 40.0, "held_s": 7.0}
LIFE = {"key": "b/1", "lasted_s": 5.0, "cause": "power_cut", "version": "1"}
STANDING = {"at": 2, "start": 3, "last": "restart", "why": "deadline", "profile": 1}
KEPT: dict[str, Any] = {
    "deadline": {"schema": 1, "workloads": {"a": {"run": ESTIMATE, "start": ESTIMATE}}},
    "crash_loop": {"schema": 1, "workloads": {"a": [LIFE, LIFE]}},
    "boot_loop": {
        "schema": 1,
        "boots": [LIFE],
        "loops": 0,
        "now": {"boot_id": "y", "version": "1", "uptime_s": 5.0, "why": ""},
    },
    "ladder": {
        "schema": 1,
        "boot_id": "other",
        "now_ns": 5 * NS,
        "restore_s": 600.0,
        "holds": {"": {"until_ns": 9 * NS, "why": "lens"}},
        "taken": {"restart/a": [NS, 2 * NS], "reboot": [NS]},
        "workloads": {"a": {**STANDING, "taken_ns": NS, "ready_ns": NS}},
    },
}
MAKE: dict[str, Callable[[], Remembers]] = {
    "deadline": lambda: deadline.make(deadline.Options()),
    "crash_loop": lambda: crash_loop.make(crash_loop.Options()),
    "boot_loop": Boots,
    "ladder": lambda: Ladder("this"),
}


def damaged(value: Any) -> Iterator[Any]:
    """Give `value` with each of its parts replaced by each oddity, one at a time."""
    yield from ODD
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        for odd in damaged(value[key]):
            fresh = deepcopy(value)
            fresh[key] = odd
            yield fresh


@pytest.mark.parametrize("name", KEPT)
def test_damage_is_refused_by_name(name: str) -> None:
    """Pins that no number, text or nesting that Python's JSON reads makes agentd fail to start; what is taken can be kept."""
    MAKE[name]().restore(KEPT[name], 10 * NS)
    for kept in damaged(KEPT[name]):
        one = MAKE[name]()
        try:
            one.restore(kept, 10 * NS)
        except StoreError:
            continue
        json.dumps(one.plain(20 * NS), allow_nan=False)


def test_the_ring_of_boots_takes_what_it_can() -> None:
    """Pins the same for the ring, which leaves out what is not of its form: `agentctl status` can always say it."""
    verdict = {"cause": "panic", "confidence": "high", "reason": "r", "evidence": ["e"]}
    row = {"boot_id": "b", "t_wall": 1.0, "version": "1", "verdict": verdict, "uptime_s": 5.0}
    for kept in damaged({"boots": [row], "seen": ["s"]}):
        json.dumps(boots.read(kept).plain(), allow_nan=False)


def test_a_rung_cannot_have_been_taken_in_the_future() -> None:
    """Pins that a time that lies ahead spends no budget for years: nothing is ever given up."""
    kept = deepcopy(KEPT["ladder"])
    kept["taken"] = {"restart/a": [1 << 60] * 4}
    kept["holds"] = {"a": {"until_ns": 1 << 61, "why": "x"}}
    kept["workloads"]["a"] |= {"taken_ns": 1 << 60, "ready_ns": 1 << 60}
    one = Ladder("this")
    one.restore(kept, 10 * NS)
    again = one.plain(10 * NS)
    assert again["taken"] == {"restart/a": [10 * NS] * 4}
    assert again["holds"]["a"]["until_ns"] <= (10 + 7 * 86400) * NS  # type: ignore[index, call-overload, operator]
    assert again["workloads"]["a"]["taken_ns"] == 10 * NS  # type: ignore[index, call-overload]
    assert again["workloads"]["a"]["ready_ns"] <= 3610 * NS  # type: ignore[index, call-overload, operator]
