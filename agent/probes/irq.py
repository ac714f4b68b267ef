"""irq: interrupt handler time by line, storms, spurious interrupts.

Kernel side: `bpf/irq.bpf.c`, which defines each quantity.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.layout import Layout
from agent.model import Data, Json, Severity, Sighting
from agent.narrow import count
from agent.ports import Hook, Maps
from agent.probes._decode import STACK, buckets, grown, number, pick, rows, spread, stack, summary

NAME = "irq"
HOOKS = (
    Hook("irq_handler_entry", ("int, irqaction *",)),
    Hook("irq_handler_exit", ("int, irqaction *, int",)),
)
STEERED: tuple[str, ...] = ()

CTL = Layout("irq_ctl", "enabled:I _:4x since_ns:Q run_ns:Q storm_per_window:Q")
EVENT = Layout(
    "irq_event",
    "t_ns:Q value:Q budget:Q spurious:Q what:I line:I cpu:I pid:I comm:16s name:32s " + STACK,
)
LINE = Layout(
    "irq_line",
    "name:32s count:Q spurious:Q run_max:Q window_ns:Q window_count:I window_spurious:I told:I _:4x run:128I",
)

WHATS = ("irq.slow", "irq.storm", "irq.spurious")
WINDOW_MS = 100  # GW_LIMIT_NS
US = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """`[probes.irq]`: from where on an interrupt line is a violation, sent as an event of its own."""

    run_us: Annotated[int, Ge(10), Le(60_000_000)] = 10_000
    """How long one handler may run, in microseconds."""
    storm_per_window: Annotated[int, Ge(10), Le(10_000_000)] = 20_000
    """Interrupts of one line within 100 ms that make a storm."""


def steer(options: object, maps: Maps) -> bytes:  # noqa: ARG001 - no watch sets here
    """Give the ctl struct."""
    assert isinstance(options, Options)
    return CTL.pack(enabled=1, run_ns=options.run_us * US, storm_per_window=options.storm_per_window)


def sighting(record: memoryview) -> Sighting:
    """Read struct irq_event."""
    row = EVENT.unpack(record)
    kind = pick(WHATS, row["what"], "event of irq")
    value, budget = number(row["value"]), number(row["budget"])
    data: Data = {
        "line": number(row["line"]),
        "name": str(row["name"]),
        "cpu": number(row["cpu"]),
        "pid": number(row["pid"]),
        "comm": str(row["comm"]),
        "stack": stack(row),
    }
    if kind == "irq.slow":
        data |= {"run_us": value / US, "budget_us": budget / US}
    else:
        data |= {"count": value, "budget": budget, "window_ms": WINDOW_MS}
    if kind == "irq.spurious":
        data["spurious"] = number(row["spurious"])
    severity: Severity = "error" if value >= 10 * budget else "warning"
    return Sighting(number(row["t_ns"]), NAME, kind, f"{data['line']} {data['name']}", severity, data)


def snapshot(maps: Maps) -> Data:
    """Read every line: `{line: {"name", "count", "spurious", "run"}}`."""
    result: Data = {}
    for key, value in maps.items("lines"):
        row = LINE.unpack(value)
        result[str(int.from_bytes(key, sys.byteorder))] = {
            "name": str(row["name"]),
            "count": number(row["count"]),
            "spurious": number(row["spurious"]),
            "run": buckets(row, "run", "run_max").plain(),
        }
    return result


def report(before: Data | None, after: Data) -> Data:
    """Give the lines that fired in the interval, most interrupts first."""
    old = rows(before or {}, "")
    lines = [_line(line, row, old.get(line, {})) for line, row in rows(after, "").items()]
    lines = [line for line in lines if line["count"]]
    lines.sort(key=lambda line: (-count(line["count"]), count(line["line"])))
    return {"irq": list[Json](lines)}


def _line(line: str, row: Data, old: Data) -> Data:
    run = spread(row, old, "run")
    return {
        "line": int(line),
        "name": row.get("name"),
        "count": grown(row, old, "count"),
        "spurious": grown(row, old, "spurious"),
        "run_us": summary(run),
        "run_buckets": run.plain()["buckets"],
    }
