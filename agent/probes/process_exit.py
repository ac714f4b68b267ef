"""process_exit: deaths of watched processes and commands, of OOM victims, and with a core dump, at once.

Kernel side: `bpf/process_exit.bpf.c`. Its map `pids` holds the process ids to watch (the workloads'), a `__u32` key and one
byte; whoever starts workloads fills it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import MaxLen, MinLen

from agent.layout import Layout
from agent.model import Data, Severity, Sighting
from agent.ports import Hook, Maps
from agent.probes._decode import grown, number, rows

NAME = "process_exit"
HOOKS = (Hook("sched_process_exit", ("task_struct *, bool", "task_struct *")),)
STEERED: tuple[str, ...] = ("comms", "pids")

CTL = Layout("process_exit_ctl", "enabled:I _:4x since_ns:Q")
EVENT = Layout("process_exit_event", "t_ns:Q pid:I tgid:I code:I oom:I cpu:I _:4x comm:16s")
TOTAL = Layout("process_exit_total", "exits:Q signalled:Q oom:Q")

COMM_BYTES = 16  # TASK_COMM_LEN, NUL included
SIGNAL, CORE = 0x7F, 0x80


@dataclass(frozen=True, slots=True)
class Options:
    """`[probes.process_exit]`: whose death is told, besides workloads, OOM victims and core dumps."""

    comm: Annotated[tuple[Annotated[str, MinLen(1), MaxLen(64)], ...], MaxLen(64)] = ()
    """Command names of processes; the kernel keeps 15 bytes of them, and so many are compared."""


def steer(options: object, maps: Maps) -> bytes:
    """Fill the watch set `comms`, then give the ctl struct."""
    assert isinstance(options, Options)
    maps.replace("comms", {comm_key(comm): b"\1" for comm in options.comm})
    return CTL.pack(enabled=1)


def comm_key(comm: str) -> bytes:
    """Give `comm` as the kernel keeps it: cut to 15 bytes, NUL-padded."""
    return comm.encode("utf-8", "surrogateescape")[: COMM_BYTES - 1].ljust(COMM_BYTES, b"\0")


def sighting(record: memoryview) -> Sighting:
    """Read struct process_exit_event."""
    row = EVENT.unpack(record)
    status = number(row["code"])
    signal, core, oom = status & SIGNAL, bool(status & CORE), bool(row["oom"])
    code = 0 if signal else status >> 8 & 0xFF
    comm = str(row["comm"])
    data: Data = {
        "pid": number(row["pid"]),
        "tgid": number(row["tgid"]),
        "comm": comm,
        "code": code,
        "signal": signal,
        "core": core,
        "oom": oom,
        "workload": None,
    }
    severity: Severity = "critical" if oom else "error" if core else "warning" if signal or code else "info"
    return Sighting(number(row["t_ns"]), NAME, "proc.exit", comm, severity, data)


def snapshot(maps: Maps) -> Data:
    """Read the counts of all processes that ended: `{"total": {"exits", "signalled", "oom"}}`."""
    totals = [TOTAL.unpack(row) for row in maps.percpu("total", 0)]
    return {"total": {field: sum(number(row[field]) for row in totals) for field in ("exits", "signalled", "oom")}}


def report(before: Data | None, after: Data) -> Data:
    """Give how many processes ended in the interval, whoever they were."""
    new, old = rows(after, "").get("total", {}), rows(before or {}, "").get("total", {})
    return {field: grown(new, old, field) for field in ("exits", "signalled", "oom")}
