"""run_queue: how long tasks waited for a CPU, by process and cgroup; switches, migrations, tasks blocked beyond a limit.

Kernel side: `bpf/run_queue.bpf.c`, which defines each quantity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Annotated

from annotated_types import Ge, Le

from agent import histogram
from agent.histogram import Histogram
from agent.layout import Layout, Value
from agent.model import Data, Json, Severity, Sighting
from agent.narrow import count
from agent.ports import Hook, Maps
from agent.probes._decode import STACK, buckets, grown, number, pick, rows, same, spread, stack, summary, weight

NAME = "run_queue"
HOOKS = (
    Hook("sched_wakeup", ("task_struct *",)),
    Hook("sched_wakeup_new", ("task_struct *",)),
    Hook("sched_switch", ("bool, task_struct *, task_struct *, unsigned int", "bool, task_struct *, task_struct *")),
)
STEERED: tuple[str, ...] = ()

CTL = Layout("run_queue_ctl", "enabled:I _:4x since_ns:Q latency_ns:Q blocked_ns:Q")
EVENT = Layout(
    "run_queue_event",
    "t_ns:Q value_ns:Q budget_ns:Q what:I cpu:I pid:I task:I tgid:I _:4x comm:16s task_comm:16s " + STACK,
)
PROCESS = Layout("run_queue_process", "tgid:I seen:I comm:16s cgroup:Q made_ns:Q max:Q involuntary:Q migrations:Q wait:128I")
SET = Layout("gw_set", "key:8I used:8I")
SLOT = Layout("run_queue_slot", "word:Q high:I cpu:H _:2x")

WHATS = ("sched.latency", "sched.blocked")
US = 1000
LISTED = 16
"""How many of the tasks that are blocked now are told."""
ROOT_CGROUPS = {0, 1}
"""No v2 hierarchy; its root, where everything is if nobody uses it."""

WAYS = 8
OTHER = 128 * WAYS

# The word of a slot, and the unit of `used`: see bpf/run_queue.bpf.c.
_USED_SHIFT = 26
_TIME_SHIFT, _TIME_BITS, _BLOCKED = 6, 40, 3
_TIME_MASK = (1 << _TIME_BITS) - 1
_PID_SHIFT = _TIME_BITS + 2


@dataclass(frozen=True, slots=True)
class Options:
    """`[probes.run_queue]`: from where on a wait is a violation, sent as an event of its own."""

    latency_us: Annotated[int, Ge(100), Le(60_000_000)] = 50_000
    """How long a task that can run may wait for a CPU, in microseconds."""
    blocked_ms: Annotated[int, Ge(10), Le(86_400_000)] = 10_000
    """How long a task may sleep uninterruptibly, in milliseconds."""


def steer(options: object, maps: Maps) -> bytes:  # noqa: ARG001 - no watch sets here
    """Give the ctl struct."""
    assert isinstance(options, Options)
    return CTL.pack(enabled=1, latency_ns=options.latency_us * US, blocked_ns=options.blocked_ms * US * US)


def sighting(record: memoryview) -> Sighting:
    """Read struct run_queue_event."""
    row = EVENT.unpack(record)
    kind = pick(WHATS, row["what"], "event of run_queue")
    value, budget = number(row["value_ns"]), number(row["budget_ns"])
    comm = str(row["task_comm"])
    data: Data = {
        "pid": number(row["task"]),
        "tgid": number(row["tgid"]),
        "comm": comm,
        "cpu": number(row["cpu"]),
        "budget_us": budget / US,
        "stack": stack(row),
    }
    other: Data
    if kind == "sched.latency":
        other = {"wait_us": value / US, "running_pid": number(row["pid"]), "running_comm": str(row["comm"])}
    else:
        other = {"blocked_us": value / US, "waker_pid": number(row["pid"]), "waker_comm": str(row["comm"])}
    return Sighting(number(row["t_ns"]), NAME, kind, comm, _severity(value, budget), data | other)


def snapshot(maps: Maps) -> Data:
    """Read every process: `{"processes": {tgid: {...cumulative...}}, "total": {...}, "blocked": [{"pid","blocked_us"}]}`."""
    found = list(_processes(maps.array("processes")))
    return {
        "processes": {
            str(row["tgid"]): {
                "comm": str(row["comm"]),
                "cgroup": number(row["cgroup"]),
                "made": number(row["made_ns"]),
                "involuntary": number(row["involuntary"]),
                "migrations": number(row["migrations"]),
                "wait": buckets(row, "wait", "max").plain(),
            }
            for row in found
            if row["tgid"]
        },
        "total": {
            "involuntary": sum(number(row["involuntary"]) for row in found),
            "migrations": sum(number(row["migrations"]) for row in found),
            "wait": histogram.total([buckets(row, "wait", "max") for row in found]).plain(),
        },
        "blocked": [{"pid": one.pid, "blocked_us": one.age_ns / US} for one in _blocked(maps)],
    }


def _processes(table: memoryview) -> Iterator[dict[str, Value]]:
    """Yield the rows in use, and last the one that sums up what was evicted."""
    whole = len(table) // PROCESS.size * PROCESS.size  # a mapping ends with its page
    tgids = table[:whole].cast("I")[:: PROCESS.size // 4].tolist()
    for index, tgid in enumerate(tgids):
        if tgid or index == OTHER:
            yield PROCESS.unpack(table[index * PROCESS.size : (index + 1) * PROCESS.size])


@dataclass(frozen=True, slots=True)
class _Blocked:
    """A task in uninterruptible sleep since `since_ns`."""

    pid: int
    cpu: int
    since_ns: int
    age_ns: int = 0


def standing(maps: Maps, who: Callable[[int], tuple[int, str] | None]) -> dict[str, Sighting]:
    """Tell the tasks that are blocked now, beyond the limit, by task and begin of the sleep."""
    budget_ns = number(CTL.unpack(maps.array("ctl"))["blocked_ns"])
    found: dict[str, Sighting] = {}
    for one in _blocked(maps):
        known = who(one.pid)
        if known is None:
            continue  # gone meanwhile
        tgid, comm = known
        task: Data = {"pid": one.pid, "tgid": tgid, "comm": comm, "cpu": one.cpu, "budget_us": budget_ns / US, "stack": []}
        data: Data = {**task, "blocked_us": one.age_ns / US, "waker_pid": None, "waker_comm": ""}
        severity = _severity(one.age_ns, budget_ns)
        found[f"{one.pid}/{one.since_ns}"] = Sighting(one.since_ns + one.age_ns, NAME, WHATS[1], comm, severity, data)
    return found


def _severity(value: int, budget: int) -> Severity:
    return "error" if value >= 10 * budget else "warning"


def _blocked(maps: Maps) -> list[_Blocked]:
    """Tell who is blocked beyond the limit, longest first. Now is the newest switch: the one that let us run."""
    ctl = CTL.unpack(maps.array("ctl"))
    sets = maps.array("processes_sets").cast("I")
    now_ns = max(max(sets[at : at + WAYS]) for at in range(WAYS, len(sets), 2 * WAYS)) << _USED_SHIFT
    found = [
        replace(one, age_ns=now_ns - one.since_ns)
        for one in _sleepers(maps.array("slots"))
        if one.since_ns >= number(ctl["since_ns"]) and now_ns - one.since_ns > number(ctl["blocked_ns"])
    ]
    return sorted(found, key=lambda one: one.since_ns)[:LISTED]


def _sleepers(slots: memoryview) -> Iterator[_Blocked]:
    """Yield each task in uninterruptible sleep."""
    for index, word in enumerate(slots.cast("Q")[::2].tolist()):
        if word >> _TIME_BITS & 3 == _BLOCKED:
            slot = SLOT.unpack(slots[index * SLOT.size : (index + 1) * SLOT.size])
            since_ns = (number(slot["high"]) << _TIME_BITS | word & _TIME_MASK) << _TIME_SHIFT
            yield _Blocked(word >> _PID_SHIFT, number(slot["cpu"]), since_ns)


def report(before: Data | None, after: Data) -> Data:
    """Give what waited in the interval, the longest total wait first; `other` is what was evicted."""
    old = before or {}
    was = rows(old, "processes")
    new = [(tgid, row, same(row, was.get(tgid, {}))) for tgid, row in rows(after, "processes").items()]
    found = [
        (row, waits, _line(tgid, row, earlier, waits))
        for tgid, row, earlier in new
        if (waits := spread(row, earlier, "wait")).count
    ]
    found.sort(key=lambda item: -weight(item[1]))
    lines = [line for _, _, line in found]
    new_total, old_total = rows(after, "").get("total", {}), rows(old, "").get("total", {})
    everything = spread(new_total, old_total, "wait")
    counters: Data = {field: grown(new_total, old_total, field) for field in ("involuntary", "migrations")}
    other = _other(everything, counters, lines, histogram.total([waits for _, waits, _ in found]))
    return {
        "run_queue_us": summary(everything),
        "buckets": everything.plain()["buckets"],
        **counters,
        "processes": [*lines, other] if other else list[Json](lines),
        "cgroups": _cgroups([(count(row.get("cgroup")), waits) for row, waits, _ in found]),
        "blocked": after.get("blocked", []),
    }


def _line(tgid: str, row: Data, old: Data, waits: Histogram) -> Data:
    counters: Data = {field: grown(row, old, field) for field in ("involuntary", "migrations")}
    return _row(int(tgid), row.get("comm"), waits, counters) | {"cgroup": row.get("cgroup")}


def _row(pid: int, comm: Json, waits: Histogram, counters: Data) -> Data:
    involuntary = min(count(counters["involuntary"]), waits.count)
    return {
        "pid": pid,
        "comm": comm,
        "run_queue_us": summary(waits),
        "buckets": waits.plain()["buckets"],
        "voluntary": waits.count - involuntary,
        "involuntary": involuntary,
        "migrations": counters["migrations"],
    }


def _cgroups(found: list[tuple[int, Histogram]]) -> Json:
    if all(cgroup in ROOT_CGROUPS for cgroup, _ in found):
        return "unavailable"
    by_id: dict[int, list[Histogram]] = {}
    for cgroup, waits in found:
        by_id.setdefault(cgroup, []).append(waits)
    sums = {cgroup: histogram.total(parts) for cgroup, parts in by_id.items()}
    ranked = sorted(sums.items(), key=lambda item: -weight(item[1]))
    return [{"id": cgroup, "run_queue_us": summary(waits)} for cgroup, waits in ranked]


def _other(everything: Histogram, counters: Data, lines: list[Data], shown: Histogram) -> Data | None:
    """Give what was counted for processes that have been evicted since: what is in no line."""
    counts = tuple(max(0, a - b) for a, b in zip(everything.counts, shown.counts, strict=True))
    if not any(counts):
        return None
    left: Data = {field: max(0, count(all_) - sum(count(line[field]) for line in lines)) for field, all_ in counters.items()}
    return _row(0, "other", Histogram(counts, everything.max_ns), left) | {"cgroup": None}
