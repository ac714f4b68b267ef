"""conservation: whether counters grow by what the timer callbacks that count them up should have added.

Kernel side: `bpf/conservation.bpf.c`, which says why a deficit there is a lost update. By `placed` the loader finds addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le, MaxLen, MinLen

from agent.config.constraints import Pattern
from agent.errors import BadRequest, Unsupported
from agent.kernelnames import KernelNames, Placement
from agent.layout import Layout, Value
from agent.model import Data, Json, Sighting
from agent.narrow import count
from agent.ports import Hook, Maps
from agent.probes._decode import grown, number, rows

NAME = "conservation"
HOOKS = (
    Hook("timer_expire_entry", ("timer_list *, long unsigned int",)),
    Hook("timer_expire_exit", ("timer_list *",)),
    Hook("hrtimer_expire_entry", ("hrtimer *, ktime_t *",)),
    Hook("hrtimer_expire_exit", ("hrtimer *",)),
)
STEERED: tuple[str, ...] = ()

CTL = Layout("conservation_ctl", "enabled:I _:4x since_ns:Q")
PLACE = Layout("conservation_place", "address:Q step:Q length:I _:4x name:64s reason:128s")
SUM = Layout("conservation_sum", "started:Q ended:Q ended_ns:Q overlaps:Q falls:Q")
_SUMS = "calls:Q alone:Q expected:Q growth:Q deficit:Q windows:Q alone_deficit:Q "
ROW = Layout("conservation_row", f"ended:Q value:Q overlaps:Q known:I busy:I doubted:I _:4x {_SUMS}shorts:Q unread:Q told_ns:Q")
EVENT = Layout(
    "conservation_event",
    f"t_ns:Q address:Q step:Q {_SUMS}falls:Q length:I cpu:I pid:I _:4x comm:16s name:64s symbol:40s callback:40s",
)

PLACES = 8
ENOUGH, CLEARLY, MANY, FEW = 16, 4, 1024, 16
CHANCE = 2.0**-24  # that all deficits fall into windows with overlap, were it not the overlap
_WEIGHED = ("calls", "alone", "deficit", "windows", "alone_deficit")
SHOWN = 39  # characters of a name that the kernel resolved
SHORT = (
    "it grew by less than `step` while its callbacks ran one at a time: they do not add that much each time, "
    "or another writer interferes"
)
FELL = "it fell, or did not grow at all, between two moments without a callback: it is counted down or set back elsewhere"
MOVED = "another symbol lies there now: its module was loaded anew; as root: agentctl probes load"
UNREAD = "its memory cannot be read: its module was unloaded; as root: agentctl probes load"
UNSEEN = "none of its callbacks ran"
EARLY = "something lacks where its callbacks overlap, and too few ran without overlap yet to tell that nothing lacks there"
CROWDED = "its callbacks overlap all the time: there was no moment without one"

_PLACE = Pattern(
    r"(?:[A-Za-z_][A-Za-z0-9_-]{0,62}:)?[A-Za-z_][A-Za-z0-9_.$]{0,126}(?:\+(?:0x[0-9a-fA-F]{1,8}|[0-9]{1,9}))?",
    "[MODULE:]SYMBOL[+OFFSET]",
)
_FUNCTION = Pattern(r"(?:[A-Za-z_][A-Za-z0-9_-]{0,62}:)?[A-Za-z_][A-Za-z0-9_.$]{0,126}", "[MODULE:]FUNCTION")


@dataclass(frozen=True, slots=True)
class Counter:
    """A kernel counter that timer callbacks count up, and nobody counts down or sets back."""

    symbol: Annotated[str, _PLACE]
    """The variable: `[MODULE:]SYMBOL[+OFFSET]`."""
    callbacks: Annotated[tuple[Annotated[str, _FUNCTION], ...], MinLen(1), MaxLen(8)]
    """Timer callbacks that add to it, all of them."""
    step: Annotated[int, Ge(1), Le(1_000_000)] = 1
    """What each run of a callback adds, at least."""
    length: Literal[1, 2, 4, 8] = 8
    """Its bytes."""


@dataclass(frozen=True, slots=True)
class Options:
    """`[probes.conservation]`."""

    counters: Annotated[tuple[Counter, ...], MaxLen(PLACES)] = ()
    """Counters to watch."""


def steer(options: object, maps: Maps) -> bytes:  # noqa: ARG001 - the loader fills the maps
    """Give the ctl struct."""
    assert isinstance(options, Options)
    return CTL.pack(enabled=1)


def placed(options: object, names: Callable[[], KernelNames]) -> Placement:
    """Give the maps that hold kernel addresses. Raises Unsupported if none of the counters can be found."""
    assert isinstance(options, Options)
    known = names() if options.counters else None
    places = dict.fromkeys(range(PLACES), bytes(PLACE.size))
    callbacks: dict[int, int] = {}
    watched: set[str] = set()
    lacking: list[str] = []
    for index, counter in enumerate(options.counters):
        assert known is not None
        head: dict[str, Value] = {"name": counter.symbol, "step": counter.step, "length": counter.length}
        try:
            if counter.symbol in watched:
                raise BadRequest("is named twice: give it all its callbacks in one place")  # noqa: TRY301 - as what is not found
            address = known.data(counter.symbol, counter.length)
            functions = [known.function(name) for name in counter.callbacks]
        except BadRequest as error:
            lacking.append(f"{counter.symbol}: {error}")
            places[index] = PLACE.pack(**head, reason=str(error))
            continue
        watched.add(counter.symbol)
        places[index] = PLACE.pack(**head, address=address)
        for function in functions:
            callbacks[function] = callbacks.get(function, 0) | 1 << index
    if options.counters and not callbacks:
        raise Unsupported("; ".join(lacking), "load the module first, then as root: agentctl probes load")
    return Placement({"places": _words(places), "callbacks": _words(callbacks, 8)}, tuple(lacking))


def _words(items: Mapping[int, bytes] | Mapping[int, int], width: int = 4) -> dict[bytes, bytes]:
    return {
        key.to_bytes(width, "little"): value if isinstance(value, bytes) else value.to_bytes(4, "little")
        for key, value in items.items()
    }


def sighting(record: memoryview) -> Sighting:
    """Read struct conservation_event."""
    row = EVENT.unpack(record)
    name, symbol = str(row["name"]), str(row["symbol"]).split(" ")[0]
    moved = symbol and not symbol.startswith("0x") and symbol != _bare(name)[:SHOWN]
    reason = MOVED if moved else _doubt({key: number(row[key]) for key in (*_WEIGHED, "falls")})
    data: Data = {
        "symbol": name,
        "address": hex(number(row["address"])),
        "length": number(row["length"]),
        "step": number(row["step"]),
        "callback": str(row["callback"]),
        "cpu": number(row["cpu"]),
        "callbacks": number(row["calls"]),
        **{key: number(row[key]) for key in ("alone", "expected", "growth", "deficit", "windows", "alone_deficit")},
    }
    if reason:
        return Sighting(number(row["t_ns"]), NAME, "race.inconclusive", name, "info", data | {"reason": reason})
    return Sighting(number(row["t_ns"]), NAME, "race.lost_update", name, "error", data)


def _bare(place: str) -> str:
    return place.rpartition(":")[2].partition("+")[0]


def _doubt(sums: Mapping[str, Json]) -> str:
    """Say why these sums prove nothing, empty if they do, or nothing lacks: the rule of `worth_telling` on the kernel side."""
    alone, calls, windows = (count(sums.get(key)) for key in ("alone", "calls", "windows"))
    overlapping = calls - alone
    if sums.get("falls"):
        return FELL
    short = count(sums.get("alone_deficit"))
    if short and CLEARLY * short * overlapping >= count(sums.get("deficit")) * alone:
        return SHORT
    if not short and calls and (overlapping / calls) ** min(windows, ENOUGH) < CHANCE:
        return ""
    few = windows * alone < ENOUGH * overlapping and (calls < MANY or alone * FEW > calls)
    return EARLY if windows and (few or windows < ENOUGH) else ""


def snapshot(maps: Maps) -> Data:
    """Read every counter that is configured: `{"counters": {symbol: {...}}}`; the deficit is that of each CPU."""
    table, sums = maps.array("places"), maps.array("sums")
    found: dict[str, Json] = {}
    for index in range(PLACES):
        place = PLACE.unpack(table[index * PLACE.size :])
        if not place["name"]:
            break
        if place["reason"] and str(place["name"]) in found:
            continue  # named twice
        total = SUM.unpack(sums[index * SUM.size :])
        cpus = [ROW.unpack(row) for row in maps.percpu("rows", index)]
        best = max(cpus, key=lambda row: (number(row["deficit"]), number(row["calls"])))
        found[str(place["name"])] = {
            "reason": str(place["reason"]),
            **{key: number(total[key]) for key in ("started", "overlaps", "falls")},
            **{key: number(best[key]) for key in _WEIGHED},
            "unread": sum(number(row["unread"]) for row in cpus),
            "deficits": [number(row["deficit"]) for row in cpus],
        }
    return {"counters": found}


def report(before: Data | None, after: Data) -> Data:
    """Give the state of each counter: losing, conserved, inconclusive or unseen, and by what; the deficit is a lower bound."""
    old = rows(before or {}, "counters")
    return {"counters": [_line(name, row, old.get(name, {})) for name, row in rows(after, "counters").items()]}


def _line(name: str, row: Data, old: Data) -> Data:
    runs, deficit = grown(row, old, "started"), max(map(_less, _deficits(row), _deficits(old)), default=0)
    doubt = _doubt(row)
    table = (
        (bool(row.get("reason")), "inconclusive", str(row.get("reason"))),
        (bool(doubt), "inconclusive", doubt),
        (grown(row, old, "unread") > 0, "inconclusive", UNREAD),
        (not runs, "unseen", UNSEEN),
        (deficit > 0, "losing", ""),
        (not grown(row, old, "calls"), "inconclusive", CROWDED),
        (True, "conserved", ""),
    )
    state, reason = next((state, reason) for fits, state, reason in table if fits)
    return {
        "symbol": name,
        "state": state,
        "reason": reason,
        "runs": runs,
        "overlaps": grown(row, old, "overlaps"),
        "deficit": deficit,
    }


def _deficits(row: Data) -> list[int]:
    found = row.get("deficits")
    return [count(item) for item in found] if isinstance(found, list) else [0] * 1024


def _less(new: int, old: int) -> int:
    return max(0, new - old)
