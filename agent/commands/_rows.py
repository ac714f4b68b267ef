"""Reading the rows of a probe's report."""

from __future__ import annotations

from agent import histogram
from agent.commands._table import micros
from agent.histogram import NS_PER_US, Histogram
from agent.model import Data
from agent.narrow import part


def spread(row: Data, summary: str, buckets: str) -> Histogram:
    """Give the histogram whose quantiles (in microseconds) are in `row[summary]` and whose counts are in `row[buckets]`."""
    peak = part(row, summary).get("max")
    max_ns = round(peak * NS_PER_US) if isinstance(peak, int | float) else 0
    return histogram.from_plain({"max": max_ns, "buckets": row.get(buckets)})


def three(row: Data, key: str) -> tuple[str, str, str]:
    """Give p50, p99 and max of a summary for a table."""
    summary = part(row, key)
    return micros(summary.get("p50")), micros(summary.get("p99")), micros(summary.get("max"))
