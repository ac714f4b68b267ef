"""timers: lateness, run time, period deviation and re-arm storms of kernel timers, by callback function.

Kernel side: `bpf/timers.bpf.c`, which defines each quantity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent import histogram
from agent.histogram import Histogram
from agent.layout import Layout
from agent.model import Data, Json, Severity, Sighting
from agent.narrow import count
from agent.ports import Hook, Maps
from agent.probes._decode import STACK, buckets, grown, number, pick, rows, same, spread, stack

NAME = "timers"
HOOKS = (
    Hook("timer_start", ("timer_list *, long unsigned int", "timer_list *, long unsigned int, unsigned int")),
    Hook("timer_expire_entry", ("timer_list *, long unsigned int",)),
    Hook("timer_expire_exit", ("timer_list *",)),
    Hook("hrtimer_start", ("hrtimer *, hrtimer_mode, bool", "hrtimer *, hrtimer_mode")),
    Hook("hrtimer_expire_entry", ("hrtimer *, ktime_t *",)),
    Hook("hrtimer_expire_exit", ("hrtimer *",)),
)

STEERED: tuple[str, ...] = ()

CTL = Layout("timers_ctl", "enabled:I _:4x since_ns:Q hrtimer_late_ns:Q wheel_late_jiffies:Q run_ns:Q past_per_window:Q")
EVENT = Layout(
    "timers_event",
    "t_ns:Q function:Q timer:Q value_ns:Q budget_ns:Q what:I kind:I cpu:I pid:I comm:16s name:40s " + STACK,
)
CALLBACK = Layout(
    "timers_callback",
    "function:Q made_ns:Q run_total_ns:Q cpus:Q late_max:Q idle_late_max:Q run_max:Q deviation_max:Q starts:Q past_starts:Q "
    "window_ns:Q past_in_window:I kind:I name:40s late:128I idle_late:128I run:128I deviation:128I",
)

OTHER = 512  # the index of the row that sums up what gave way: SETS * GW_WAYS
SPREADS = ("late", "idle_late", "run", "deviation")
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
    table = maps.array("callbacks")
    found = [CALLBACK.unpack(table[at : at + CALLBACK.size]) for at in _used(table)]
    timers: Data = {}
    for row in found[:-1]:
        address = hex(number(row["function"]))
        name = str(row["name"]) or address
        if name in timers:  # two static functions of one name
            name = f"{name}@{address}"
        timers[name] = {
            "kind": pick(KINDS, row["kind"], "timer kind"),
            "made": number(row["made_ns"]),
            **{field: number(row[field]) for field in ("starts", "past_starts", "run_total_ns", "cpus")},
            **{field: buckets(row, field, f"{field}_max").plain() for field in SPREADS},
        }
    total: Data = {field: histogram.total([buckets(row, field, f"{field}_max") for row in found]).plain() for field in SPREADS}
    return {"timers": timers, "total": total}


def _used(table: memoryview) -> list[int]:
    """Give the offsets of the rows in use, and last that of the row which sums up what gave way."""
    ends = range(0, OTHER * CALLBACK.size, CALLBACK.size)
    return [at for at in ends if any(table[at : at + 8])] + [OTHER * CALLBACK.size]


def report(before: Data | None, after: Data) -> Data:
    """Give the callbacks that expired or were started in the interval, most expiries first; `other` is what gave way."""
    was = before or {}
    old = rows(was, "timers")
    new = {name: (row, same(row, old.get(name, {}))) for name, row in rows(after, "timers").items()}
    lines = [_line(name, row, earlier) for name, (row, earlier) in new.items()]
    busy = [line for line in lines if line["count"] or line["starts"]]
    busy.sort(key=lambda line: (-count(line["count"]), str(line["function"])))
    other = _other(rows(was, "").get("total", {}), rows(after, "").get("total", {}), [*new.values()])
    return {"timers": [*busy, other] if other else list[Json](busy)}


def _other(before: Data, after: Data, known: list[tuple[Data, Data]]) -> Data | None:
    """Give what all callbacks did less what those did that are still there."""
    left = {
        field: _less(spread(after, before, field), [spread(row, earlier, field) for row, earlier in known])
        for field in ("late", "run")
    }
    if not left["run"].count:
        return None
    name: Data = {"function": "other", "kind": "other", "count": left["run"].count}
    return name | {f"{field}_us": values.summary_us() for field, values in left.items()}


def _less(everything: Histogram, shown: list[Histogram]) -> Histogram:
    known = histogram.total(shown)
    counts = tuple(max(0, a - b) for a, b in zip(everything.counts, known.counts, strict=True))
    return Histogram(counts, everything.max_ns if any(counts) else 0)


def _line(name: str, row: Data, old: Data) -> Data:
    cpus = count(row.get("cpus"))
    late, run = spread(row, old, "late"), spread(row, old, "run")
    return {
        "function": name,
        "kind": row.get("kind"),
        "count": run.count,
        "starts": grown(row, old, "starts"),
        "past_starts": grown(row, old, "past_starts"),
        "cpus": [cpu for cpu in range(64) if cpus >> cpu & 1],
        "late_us": late.summary_us(),
        "idle_late_us": spread(row, old, "idle_late").summary_us(),
        "run_us": run.summary_us(),
        "deviation_us": spread(row, old, "deviation").summary_us(),
        "run_total_us": grown(row, old, "run_total_ns") / US,
        "late_buckets": late.plain()["buckets"],
    }
