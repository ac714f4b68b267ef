"""Histograms with four sub-buckets per octave, as `bpf/common.bpf.h` fills them (`gw_bucket`).

Bucket 0 holds values below 128 ns (2^7); bucket `1 + 4*(e-7) + s` holds values with highest bit `e` whose next two bits are
`s`; the last bucket also holds everything above 2^38 ns (275 s). A quantile is the *upper edge* of the bucket it falls in,
never more than the exact maximum: it can overstate by at most 25 %, never understate. All values are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import add, sub
from typing import cast

from agent.model import Data, Json

BUCKETS = 128
FIRST_BIT = 7
NS_PER_US = 1000
WORD = 2**32 - 1


def bucket(value: int) -> int:
    """Give the index that the kernel side gives to `value` ns. Mirrors `gw_bucket` (held by a test)."""
    if value < 1 << FIRST_BIT:
        return 0
    high = value.bit_length() - 1
    return min(1 + 4 * (high - FIRST_BIT) + (value >> (high - 2) & 3), BUCKETS - 1)


def upper_edge(index: int) -> int:
    """Give the largest value in ns that bucket `index` holds (the last one has none: its lower edge)."""
    if index == 0:
        return (1 << FIRST_BIT) - 1
    high, sub = divmod(index - 1, 4)
    return ((4 + sub + 1) << (high + FIRST_BIT - 2)) - 1


@dataclass(frozen=True, slots=True)
class Histogram:
    """`counts` of `BUCKETS` buckets and the exact maximum `max_ns`."""

    counts: tuple[int, ...]
    max_ns: int

    @property
    def count(self) -> int:
        """How many values it holds."""
        return sum(self.counts)

    def quantile_ns(self, q: float) -> int:
        """Give the value in ns that a share `q` (0..1) of all values does not exceed; 0 if empty."""
        rank = q * self.count
        seen = 0
        for index, n in enumerate(self.counts):
            seen += n
            if n and seen >= rank:
                return min(upper_edge(index), self.max_ns)
        return self.max_ns

    def minus(self, older: Histogram) -> Histogram:
        """Give what was added since `older`, an earlier reading of the same entry (or a sum of entries).

        The kernel's buckets are 32 bits wide and wrap, so differences are modulo 2^32. The maximum of an interval cannot be
        known from two cumulative ones: it is exact if it grew, else the upper edge of the highest bucket that did.
        """
        counts = tuple(map(sub, self.counts, older.counts))
        if min(counts) < 0:
            counts = tuple(map(gained, self.counts, older.counts))
        top = max((index for index, n in enumerate(counts) if n), default=-1)
        grown = self.max_ns > older.max_ns
        peak = self.max_ns if grown else min(upper_edge(top), self.max_ns) if top >= 0 else 0
        return Histogram(counts, peak)

    def plus(self, other: Histogram) -> Histogram:
        """Give both together."""
        counts = tuple(map(add, self.counts, other.counts))
        return Histogram(counts, max(self.max_ns, other.max_ns))

    def plain(self) -> Data:
        """Give it as JSON: `{"max": ns, "buckets": {"index": count}}`, empty buckets left out."""
        return {"max": self.max_ns, "buckets": {str(i): n for i, n in enumerate(self.counts) if n}}

    def summary_us(self) -> Data:
        """Give `{"p50", "p99", "max"}` in microseconds, rounded to 0.1."""
        return {
            "p50": round(self.quantile_ns(0.50) / NS_PER_US, 1),
            "p99": round(self.quantile_ns(0.99) / NS_PER_US, 1),
            "max": round(self.max_ns / NS_PER_US, 1),
        }


def gained(new: int, old: int) -> int:
    """Give what a 32-bit counter gained between two readings.

    A gain of 2^31 or more is none: it fell a little, as the sum over a table does when one entry is read both in its own place
    and, moved meanwhile, in that of all that gave way.
    """
    gain = (new - old) & WORD
    return gain if gain <= WORD >> 1 else 0


EMPTY = Histogram((0,) * BUCKETS, 0)


def of(counts: Sequence[int], max_ns: int) -> Histogram:
    """Make a histogram from the kernel's buckets."""
    return Histogram(tuple(counts), max_ns)


def from_plain(value: Json) -> Histogram:
    """Read back what `Histogram.plain` gave; anything else is an empty histogram."""
    if not isinstance(value, dict) or not isinstance(value.get("buckets"), dict):
        return EMPTY
    counts = [0] * BUCKETS
    for key, n in cast("Data", value["buckets"]).items():
        if key.isdigit() and int(key) < BUCKETS and isinstance(n, int):
            counts[int(key)] = n
    peak = value.get("max")
    return Histogram(tuple(counts), peak if isinstance(peak, int) else 0)


def total(parts: Sequence[Histogram]) -> Histogram:
    """Give the sum of `parts`."""
    if not parts:
        return EMPTY
    return Histogram(tuple(map(sum, zip(*(part.counts for part in parts), strict=True))), max(part.max_ns for part in parts))
