"""Reading what `bpf/common.bpf.h` writes: stacks and per-entry histograms."""

from __future__ import annotations

from collections.abc import Sequence

from agent import histogram
from agent.histogram import Histogram
from agent.layout import Value, text
from agent.model import Data, Json
from agent.narrow import count, objects

FRAMES = 12
SYMBOL = 40
# struct gw_stack at the end of an event record, flattened.
STACK = f"address:{FRAMES}Q frame:{FRAMES * SYMBOL}r"

# Our own program, and the kernel's ways to it: nothing that an operator wants to read.
_OURS = ("bpf_prog_", "__bpf_trace_", "bpf_trace_run", "__traceiter_", "bpf_get_stack")


def number(value: Value) -> int:
    """Narrow a Layout field that is known to be a number."""
    return value if isinstance(value, int) else 0


def stack(record: dict[str, Value]) -> list[Json]:
    """Give the kernel stack of a violation, innermost first: names where the kernel resolved them, else addresses."""
    addresses, frames = record["address"], record["frame"]
    if not isinstance(addresses, tuple) or not isinstance(frames, bytes):
        return []
    names = [text(frames[at : at + SYMBOL]) for at in range(0, len(frames), SYMBOL)]
    lines = [name or hex(address) for address, name in zip(addresses, names, strict=True) if address]
    return [line for line in lines if not line.startswith(_OURS)]


def buckets(record: dict[str, Value], name: str, peak: str) -> Histogram:
    """Give the histogram in field `name`, its exact maximum being field `peak`."""
    counts = record[name]
    return histogram.of(counts if isinstance(counts, tuple) else (), number(record[peak]))


def rows(snapshot: Data, table: str) -> dict[str, Data]:
    """Give the objects in `snapshot[table]` by name (in `snapshot` itself for an empty `table`)."""
    return objects(snapshot.get(table) if table else snapshot)


def same(row: Data, old: Data) -> Data:
    """Give `old` if it is an earlier reading of the entry `row`, else nothing: that one gave way, and `row` began at zero."""
    return old if row.get("made") == old.get("made") else {}


def grown(row: Data, old: Data, field: str) -> int:
    """Give what a counter gained since an earlier reading of the same entry, or of a sum, which may seem to fall a little."""
    return max(0, count(row.get(field)) - count(old.get(field)))


def spread(row: Data, old: Data, field: str) -> Histogram:
    """Give the histogram of what came since an earlier reading of the same entry, or of a sum."""
    if field in old and row.get(field) == old[field]:
        return histogram.EMPTY
    new = histogram.from_plain(row.get(field))
    return new.minus(histogram.from_plain(old[field])) if field in old else new


def pick(names: Sequence[str], index: Value, what: str) -> str:
    """Give the name of an enumerator. Raises ValueError for one that the kernel side does not have."""
    if number(index) >= len(names):
        raise ValueError(f"{what}: {number(index)} is not known")
    return names[number(index)]


def summary(values: Histogram) -> Data:
    """Give `{"count", "p50", "p99", "max"}`, the times in microseconds."""
    return {"count": values.count, **values.summary_us()}


def weight(values: Histogram) -> int:
    """Give about the sum of all values in ns (by the upper edges): what to sort by."""
    return sum(n * histogram.upper_edge(index) for index, n in enumerate(values.counts) if n)
