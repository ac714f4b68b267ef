"""timer_race: what happens to kernel timers in a state in which it should not, with both sides.

Kernel side: `bpf/timer_race.bpf.c`. What the transitions mean is for `agent/detectors/_race_rules.py`. Not on by default: it
takes a stack at each start of a timer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.layout import Layout, Value, text
from agent.model import Data, Json, Sighting
from agent.ports import Hook, Maps
from agent.probes import _timer_stack
from agent.probes._decode import grown, number, pick, rows

NAME = "timer_race"
_TIMER, _HRTIMER = ("timer_list *",), ("hrtimer *",)
HOOKS = (
    Hook("timer_init", _TIMER),
    Hook("timer_start", ("timer_list *, long unsigned int", "timer_list *, long unsigned int, unsigned int")),
    Hook("timer_expire_entry", ("timer_list *, long unsigned int",)),
    Hook("timer_expire_exit", _TIMER),
    Hook("timer_cancel", _TIMER),
    Hook("hrtimer_init", ("hrtimer *, clockid_t, hrtimer_mode",), required=False),  # its name until 6.15
    Hook("hrtimer_setup", ("hrtimer *, clockid_t, hrtimer_mode",), required=False),
    Hook("hrtimer_start", ("hrtimer *, hrtimer_mode, bool", "hrtimer *, hrtimer_mode")),
    Hook("hrtimer_expire_entry", ("hrtimer *, ktime_t *",)),
    Hook("hrtimer_expire_exit", _HRTIMER),
    Hook("hrtimer_cancel", _HRTIMER),
    Hook("workqueue_queue_work", ("int, pool_workqueue *, work_struct *",), required=False),
    Hook("workqueue_execute_start", ("work_struct *",), required=False),
    Hook("workqueue_execute_end", ("work_struct *, work_func_t", "work_struct *"), required=False),
    Hook("kfree", ("long unsigned int, void *",), required=False),
    Hook(
        "kmem_cache_free",
        ("long unsigned int, void *, kmem_cache *", "long unsigned int, void *, char *", "long unsigned int, void *"),
        required=False,
    ),
    Hook("timer_delete", (), required=False, functions=("timer_delete", "del_timer")),
    Hook("timer_delete_sync", (), required=False, functions=("timer_delete_sync", "del_timer_sync")),
    Hook("timer_shutdown_sync", (), required=False, functions=("timer_shutdown_sync",)),
    Hook("timer_delete_sync_try", (), required=False, functions=("timer_delete_sync_try", "try_to_del_timer_sync")),
    Hook("hrtimer_try_to_cancel", (), required=False, functions=("hrtimer_try_to_cancel",)),
)
STEERED: tuple[str, ...] = ()

CTL = Layout(
    "timer_race_ctl", "enabled:I _:4x since_ns:Q late_ns:Q run_ns:Q stuck_ns:Q past_per_window:Q free_ns:Q frees_per_window:Q"
)
FRAMES, FRAME = 10, 48
_SIDE = "{0}_t_ns:Q {0}_cpu:I {0}_pid:I {0}_within:I _:4x {0}_comm:16s {0}_address:10Q {0}_frame:480r"
FOUND = Layout(
    "timer_race_found",
    "t_ns:Q count:Q by_kernel:Q sent_ns:Q timer:Q function:Q value:Q what:I kind:I sure:I _:4x name:64s "
    + _SIDE.format("actor") + " " + _SIDE.format("other"),
)  # fmt: skip
FREES = Layout("timer_race_frees", "looked:Q skipped:Q window_ns:Q in_window:Q")
STATS = Layout("gw_stats", "runs:Q timed_runs:Q timed_ns:Q lost:Q missed:Q suppressed:Q window_ns:Q window_events:Q")

TRANSITIONS = (
    "init_armed", "init_running", "start_running", "delete_running", "free_armed", "free_running", "late", "overlong",
    "periods_missed", "stuck", "storm", "rearmed_expired", "rearmed_freed", "cross_cancel", "start_freed",
)  # fmt: skip
KINDS = ("timer", "hrtimer", "hrtimer_soft")
SURE = ("state", "kernel", "guess")
SEEN = {
    "starts": ("timer_start", "hrtimer_start"),
    "expiries": ("timer_expire_entry", "hrtimer_expire_entry"),
    "cancels": ("timer_cancel", "hrtimer_cancel"),
    "deletes": ("timer_delete", "timer_delete_sync", "timer_shutdown_sync", "timer_delete_sync_try", "hrtimer_try_to_cancel"),
}
US, MS = 1000, 1_000_000


@dataclass(frozen=True, slots=True)
class Options:
    """`[probes.timer_race]`: from where on something is a suspicion, and how long frees of memory are looked at."""

    late_ms: Annotated[int, Ge(1), Le(60_000)] = 50
    """An hrtimer so late (F7), or that missed periods of so much, in milliseconds."""
    run_ms: Annotated[int, Ge(1), Le(60_000)] = 20
    """A callback that holds its CPU for so long (F7), in milliseconds."""
    stuck_s: Annotated[int, Ge(1), Le(3600)] = 2
    """A timer still armed so long past its expiry (F8), in seconds; at least 1000 jiffies for a timer_list."""
    past_per_window: Annotated[int, Ge(10), Le(1_000_000)] = 250
    """Starts of one timer in the past within 100 ms that are a storm (F9)."""
    free_window_s: Annotated[int, Ge(0), Le(3600)] = 0
    """For so many seconds from the start kfree and kmem_cache_free are looked at (F4, F5); they cost the most."""
    frees_per_window: Annotated[int, Ge(10), Le(10_000_000)] = 20_000
    """Frees looked at on one CPU within 100 ms; the others are counted as skipped."""


def steer(options: object, maps: Maps) -> bytes:  # noqa: ARG001 - no watch sets here
    """Give the ctl struct."""
    assert isinstance(options, Options)
    return CTL.pack(
        enabled=1,
        late_ns=options.late_ms * MS,
        run_ns=options.run_ms * MS,
        stuck_ns=options.stuck_s * 1000 * MS,
        past_per_window=options.past_per_window,
        free_ns=options.free_window_s * 1000 * MS,
        frees_per_window=options.frees_per_window,
    )


def sighting(record: memoryview) -> Sighting:
    """Read struct timer_race_found."""
    row = FOUND.unpack(record)
    data = _found(row)
    return Sighting(number(row["t_ns"]), NAME, "timer.race", str(data["callback"]), "warning", data)


def _found(row: dict[str, Value]) -> Data:
    actor, other = _side(row, "actor"), _side(row, "other")
    distance = number(row["actor_t_ns"]) - number(row["other_t_ns"])
    return {
        "transition": pick(TRANSITIONS, row["what"], "transition of a timer"),
        "callback": str(row["name"]) or hex(number(row["function"])),
        "kind": pick(KINDS, row["kind"], "timer kind"),
        "timer": hex(number(row["timer"])),
        "confirmed": pick(SURE, row["sure"], "confirmation"),
        "count": number(row["count"]),
        "by_kernel": number(row["by_kernel"]),
        "value": number(row["value"]),
        "distance_us": distance / US,
        "actor": actor,
        "other": other,
    }


def _side(row: dict[str, Value], name: str) -> Data:
    addresses, names = row[f"{name}_address"], row[f"{name}_frame"]
    assert isinstance(addresses, tuple)
    assert isinstance(names, bytes)
    pairs = zip(range(0, len(names), FRAME), addresses, strict=True)
    lines = [text(names[at : at + FRAME]) or hex(address) for at, address in pairs if address]
    lines = _timer_stack.frames(lines)
    pid = number(row[f"{name}_pid"])
    return {
        "t_ns": number(row[f"{name}_t_ns"]),
        "cpu": number(row[f"{name}_cpu"]),
        "pid": pid,
        "comm": str(row[f"{name}_comm"]),
        "context": _timer_stack.context(lines, number(row[f"{name}_within"]), pid),
        "symbol": _timer_stack.actor(lines),
        "stack": list[Json](lines),
    }


def snapshot(maps: Maps) -> Data:
    """Read every suspicion and what was looked at: `{"found": {key: {...}}, "seen": {...}}`."""
    found = {key.hex(): _found(row) for key, row in _rows(maps)}
    at = {hook.tracepoint: index for index, hook in enumerate(HOOKS)}
    seen: Data = {name: sum(_runs(maps, at[hook]) for hook in hooks) for name, hooks in SEEN.items()}
    frees = [FREES.unpack(block) for block in maps.percpu("frees", 0)]
    seen["frees"] = sum(number(row["looked"]) for row in frees)
    seen["frees_skipped"] = sum(number(row["skipped"]) for row in frees)
    return {"found": dict[str, Json](found), "seen": seen}


def _rows(maps: Maps) -> Iterator[tuple[bytes, dict[str, Value]]]:
    for key, value in maps.items("found"):
        row = FOUND.unpack(value)
        if row["t_ns"]:  # else it is being written
            yield key, row


def _runs(maps: Maps, hook: int) -> int:
    return sum(number(STATS.unpack(block)["runs"]) for block in maps.percpu("stats", hook))


def report(before: Data | None, after: Data) -> Data:
    """Give the suspicions that came up in the interval, with their counts in it."""
    was = before or {}
    old = rows(was, "found")
    found: list[Data] = []
    for key, row in rows(after, "found").items():
        count = grown(row, old.get(key, {}), "count")
        if count:
            found.append(row | {"count": count, "by_kernel": grown(row, old.get(key, {}), "by_kernel")})
    found.sort(key=lambda row: (str(row["transition"]), str(row["callback"])))
    seen, seen_before = rows(after, "").get("seen", {}), rows(was, "").get("seen", {})
    return {"found": list[Json](found), "seen": {name: grown(seen, seen_before, name) for name in seen}}
