"""softirq: how long softirqs waited after their raise, and how long they ran, by vector and CPU.

Kernel side: `bpf/softirq.bpf.c`, which defines each quantity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.layout import Layout
from agent.model import Data, Json, Severity, Sighting
from agent.narrow import count
from agent.ports import Hook, Maps
from agent.probes._decode import STACK, buckets, grown, number, pick, rows, spread, stack, summary

NAME = "softirq"
HOOKS = (
    Hook("softirq_raise", ("unsigned int",)),
    Hook("softirq_entry", ("unsigned int",)),
    Hook("softirq_exit", ("unsigned int",)),
    Hook("cpuhp_enter", ("unsigned int, int, int, ? *",), required=False),
)
STEERED: tuple[str, ...] = ()

CTL = Layout("softirq_ctl", "enabled:I _:4x since_ns:Q latency_ns:Q run_ns:Q")
EVENT = Layout("softirq_event", "t_ns:Q value_ns:Q budget_ns:Q what:I vector:I cpu:I pid:I comm:16s " + STACK)
VECTOR = Layout(
    "softirq_vector",
    "raised_ns:Q entered_ns:Q raised:Q count:Q latency_max:Q run_max:Q latency:128I run:128I",
)

# include/linux/interrupt.h
VECTORS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
WHATS = ("softirq.stall", "softirq.overlong")
US = 1000


@dataclass(frozen=True, slots=True)
class Options:
    """`[probes.softirq]`: from where on a softirq is a violation, sent as an event of its own."""

    latency_us: Annotated[int, Ge(50), Le(60_000_000)] = 20_000
    """From raise to entry, in microseconds."""
    run_us: Annotated[int, Ge(50), Le(60_000_000)] = 20_000
    """From entry to exit, in microseconds."""


def steer(options: object, maps: Maps) -> bytes:  # noqa: ARG001 - no watch sets here
    """Give the ctl struct."""
    assert isinstance(options, Options)
    return CTL.pack(enabled=1, latency_ns=options.latency_us * US, run_ns=options.run_us * US)


def sighting(record: memoryview) -> Sighting:
    """Read struct softirq_event."""
    row = EVENT.unpack(record)
    kind = pick(WHATS, row["what"], "event of softirq")
    vector = pick(VECTORS, row["vector"], "softirq vector")
    value, budget = number(row["value_ns"]), number(row["budget_ns"])
    data: Data = {
        "vector": vector,
        "cpu": number(row["cpu"]),
        "pid": number(row["pid"]),
        "comm": str(row["comm"]),
        "latency_us" if kind == "softirq.stall" else "run_us": value / US,
        "budget_us": budget / US,
        "stack": stack(row),
    }
    severity: Severity = "error" if value >= 10 * budget else "warning"
    return Sighting(number(row["t_ns"]), NAME, kind, vector, severity, data)


def snapshot(maps: Maps) -> Data:
    """Read every vector on every CPU that has seen it: `{vector: {cpu: {...cumulative...}}}`."""
    result: Data = {}
    for index, vector in enumerate(VECTORS):
        cpus = [VECTOR.unpack(row) for row in maps.percpu("vectors", index)]
        result[vector] = {
            str(cpu): {
                "count": number(row["count"]),
                "raised": number(row["raised"]),
                "latency": buckets(row, "latency", "latency_max").plain(),
                "run": buckets(row, "run", "run_max").plain(),
            }
            for cpu, row in enumerate(cpus)
            if row["raised"] or row["count"]
        }
    return result


def report(before: Data | None, after: Data) -> Data:
    """Give what was raised or ran in the interval, by vector and CPU."""
    lines: list[Json] = []
    for vector in rows(after, ""):
        was = rows(before or {}, vector)
        for cpu, row in rows(after, vector).items():
            line = _line(vector, int(cpu), row, was.get(cpu, {}))
            if count(line["raised"]) or count(line["count"]):
                lines.append(line)
    return {"softirq": lines}


def _line(vector: str, cpu: int, row: Data, old: Data) -> Data:
    latency, run = spread(row, old, "latency"), spread(row, old, "run")
    return {
        "vector": vector,
        "cpu": cpu,
        "count": grown(row, old, "count"),
        "raised": grown(row, old, "raised"),
        "latency_us": summary(latency),
        "run_us": summary(run),
        "latency_buckets": latency.plain()["buckets"],
        "run_buckets": run.plain()["buckets"],
    }
