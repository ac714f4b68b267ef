"""timers: lateness, run time, period deviation and re-arm storms of kernel timers, by callback function.

Kernel side: `bpf/timers.bpf.c`, which defines each quantity.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent import histogram
from agent.layout import Layout
from agent.model import Data, Json, Severity, Sighting
from agent.ports import Hook, Maps
from agent.probes._decode import STACK, buckets, count, grown, number, pick, rows, spread, stack

NAME = "timers"
HOOKS = (
    Hook("timer_start", ("timer_list *, long unsigned int", "timer_list *, long unsigned int, unsigned int")),
    Hook("timer_expire_entry", ("timer_list *, long unsigned int",)),
    Hook("timer_expire_exit", ("timer_list *",)),
    Hook("hrtimer_start", ("hrtimer *, hrtimer_mode, bool", "hrtimer *, hrtimer_mode")),
    Hook("hrtimer_expire_entry", ("hrtimer *, ktime_t *",)),
    Hook("hrtimer_expire_exit", ("hrtimer *",)),
)

STEERED = ()

CTL = Layout("timers_ctl", "enabled:I _:4x since_ns:Q hrtimer_late_ns:Q wheel_late_jiffies:Q run_ns:Q past_per_window:Q")
EVENT = Layout(
    "timers_event",
    "t_ns:Q function:Q timer:Q value_ns:Q budget_ns:Q what:I kind:I cpu:I pid:I comm:16s name:40s " + STACK,
)
CALLBACK = Layout(
    "timers_callback",
    "name:40s kind:I past_in_window:I window_ns:Q starts:Q past_starts:Q expiries:Q run_total_ns:Q cpus:Q "
    "late_max:Q idle_late_max:Q run_max:Q deviation_max:Q late:128I idle_late:128I run:128I deviation:128I",
)
TOTAL = Layout("timers_total", "expiries:Q late_max:Q run_max:Q late:128I run:128I")

KINDS = ("timer", "hrtimer", "hrtimer_soft")
WHATS = ("timer.late", "timer.overlong", "timer.storm")
WINDOW_MS = 100  # GW_LIMIT_NS
US = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """`[probes.timers]`: from where on a callback is a violation, sent as an event of its own."""

    hrtimer_late_us: Annotated[int, Ge(100), Le(60_000_000)] = 10_000
    """An hrtimer's lateness against its hard expiry, in microseconds."""
    wheel_late_jiffies: Annotated[int, Ge(1), Le(60_000)] = 3
    """A timer_list's lateness against its wheel bucket, in jiffies."""
    run_us: Annotated[int, Ge(50), Le(60_000_000)] = 10_000
    """How long one callback may hold its CPU, in microseconds."""
    past_per_window: Annotated[int, Ge(10), Le(1_000_000)] = 1000
    """Starts with an expiry in the past by one callback within 100 ms that make a re-arm storm."""


def steer(options: object, maps: Maps) -> bytes:  # noqa: ARG001 - no watch sets here
    """Give the ctl struct."""
    assert isinstance(options, Options)
    return CTL.pack(
        enabled=1,
        hrtimer_late_ns=options.hrtimer_late_us * US,
        wheel_late_jiffies=options.wheel_late_jiffies,
        run_ns=options.run_us * US,
        past_per_window=options.past_per_window,
    )


def sighting(record: memoryview) -> Sighting:
    """Read struct timers_event."""
    row = EVENT.unpack(record)
    kind = pick(WHATS, row["what"], "event of timers")
    value, budget = number(row["value_ns"]), number(row["budget_ns"])
    function = str(row["name"]) or hex(number(row["function"]))
    data: Data = {
        "function": function,
        "timer": hex(number(row["timer"])),
        "kind": pick(KINDS, row["kind"], "timer kind"),
        "cpu": number(row["cpu"]),
        "pid": number(row["pid"]),
        "comm": str(row["comm"]),
        "stack": stack(row),
    }
    if kind == "timer.storm":
        data |= {"starts": value, "budget": budget, "window_ms": WINDOW_MS}
    else:
        data |= {"late_us" if kind == "timer.late" else "run_us": value / US, "budget_us": budget / US}
    severity: Severity = "error" if value >= 10 * budget else "warning"
    return Sighting(number(row["t_ns"]), NAME, kind, function, severity, data)


def snapshot(maps: Maps) -> Data:
    """Read every callback: `{"timers": {function: {...cumulative...}}, "total": {...}}`."""
    timers: Data = {}
    for key, value in maps.items("callbacks"):
        row = CALLBACK.unpack(value)
        address = hex(int.from_bytes(key, sys.byteorder))
        name = str(row["name"]) or address
        if name in timers:  # two static functions of one name
            name = f"{name}@{address}"
        timers[name] = {
            "kind": pick(KINDS, row["kind"], "timer kind"),
            **{field: number(row[field]) for field in ("starts", "past_starts", "expiries", "run_total_ns", "cpus")},
            "late": buckets(row, "late", "late_max").plain(),
            "idle_late": buckets(row, "idle_late", "idle_late_max").plain(),
            "run": buckets(row, "run", "run_max").plain(),
            "deviation": buckets(row, "deviation", "deviation_max").plain(),
        }
    totals = [TOTAL.unpack(row) for row in maps.percpu("total", 0)]
    return {
        "timers": timers,
        "total": {
            "expiries": sum(number(row["expiries"]) for row in totals),
            "late": histogram.total([buckets(row, "late", "late_max") for row in totals]).plain(),
            "run": histogram.total([buckets(row, "run", "run_max") for row in totals]).plain(),
        },
    }


def report(before: Data | None, after: Data) -> Data:
    """Give the callbacks that expired or were started in the interval, most expiries first; `other` is what was evicted."""
    old = rows(before or {}, "timers")
    lines = [_line(name, row, old.get(name, {})) for name, row in rows(after, "timers").items()]
    busy = [line for line in lines if line["count"] or line["starts"]]
    busy.sort(key=lambda line: (-count(line["count"]), str(line["function"])))
    other = _other(before or {}, after, lines)
    return {"timers": [*busy, other] if other else list[Json](busy)}


def _line(name: str, row: Data, old: Data) -> Data:
    cpus = count(row.get("cpus"))
    late = spread(row, old, "late")
    return {
        "function": name,
        "kind": row.get("kind"),
        "count": grown(row, old, "expiries"),
        "starts": grown(row, old, "starts"),
        "past_starts": grown(row, old, "past_starts"),
        "cpus": [cpu for cpu in range(64) if cpus >> cpu & 1],
        "late_us": late.summary_us(),
        "idle_late_us": spread(row, old, "idle_late").summary_us(),
        "run_us": spread(row, old, "run").summary_us(),
        "deviation_us": spread(row, old, "deviation").summary_us(),
        "run_total_us": grown(row, old, "run_total_ns") / US,
        "late_buckets": late.plain()["buckets"],
    }


def _other(before: Data, after: Data, lines: list[Data]) -> Data | None:
    new, old = rows(after, "").get("total", {}), rows(before, "").get("total", {})
    missing = grown(new, old, "expiries") - sum(count(line["count"]) for line in lines)
    # Maps are read one after the other while timers expire: a handful is no eviction.
    if missing <= max(64, grown(new, old, "expiries") // 50):
        return None
    return {
        "function": "other",
        "kind": "other",
        "count": missing,
        "late_us": spread(new, old, "late").summary_us(),
        "run_us": spread(new, old, "run").summary_us(),
    }
