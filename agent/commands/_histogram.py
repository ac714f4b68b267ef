"""A latency histogram drawn with text: one line for each octave, log scale down, counts across. Pure."""

from __future__ import annotations

from agent.commands._screen import Screen
from agent.commands._table import micros, number
from agent.histogram import FIRST_BIT, Histogram

_EIGHTHS = " ▏▎▍▌▋▊▉█"
_SUB_BUCKETS = 4
_DEFAULT_WIDTH = 100
_GAP = 2
_GAP_SIGN = "…"
_MARKS = ((0.5, "p50"), (0.99, "p99"))


def octaves(histogram: Histogram) -> list[int]:
    """Merge the sub-buckets: element 0 counts values below 128 ns, element n those of [2^(n+6), 2^(n+7)) ns."""
    rest = histogram.counts[1:]
    return [histogram.counts[0], *(sum(rest[at : at + _SUB_BUCKETS]) for at in range(0, len(rest), _SUB_BUCKETS))]


def draw(screen: Screen, title: str, histogram: Histogram, zero_ns: int = 0) -> list[str]:
    """Give the title with the quantiles, then the octaves from the lowest to the highest that holds anything.

    Quantiles below `zero_ns` are shown as 0: the upper edge of a bucket that can hold nothing but zeros.
    """
    counts = octaves(histogram)
    held = [index for index, n in enumerate(counts) if n]
    if not held:
        return [f"{screen.paint(title, 'bold')}   no samples"]
    marks = _marks(histogram, counts)
    labels = {index: _label(index) for index in _shown(held)}
    label_width = len(_label(0))
    count_width = max(len(number(n)) for n in counts)
    # Columns: margin 2, label, 2, count, 1, bar, 1, the widest mark.
    spare = (screen.width or _DEFAULT_WIDTH) - label_width - count_width - 6 - max(len(text) for text in marks.values())
    bar_width = max(8, min(spare, 60))
    lines = _title(screen, title, histogram, zero_ns)
    for index, label in labels.items():
        if index - 1 not in labels and index != held[0]:
            lines.append(f"  {screen.paint(_GAP_SIGN.rjust(label_width), 'dim')}")
        bar = _bar(counts[index] / max(counts) * bar_width, bar_width, unicode=screen.unicode)
        line = f"  {label:>{label_width}}  {number(counts[index]):>{count_width}} {screen.paint(bar, 'bar')}"
        lines.append((f"{line} {screen.paint(marks[index], 'dim')}" if index in marks else line).rstrip())
    return lines


def _title(screen: Screen, title: str, histogram: Histogram, zero_ns: int) -> list[str]:
    quantiles = [histogram.quantile_ns(q) for q, _ in _MARKS]
    p50, p99 = (micros(0 if ns < zero_ns else ns / 1000) for ns in quantiles)
    head = f"{screen.paint(title, 'bold')}   {number(histogram.count)} samples"
    tail = f"p50 {p50}  p99 {p99}  max {micros(histogram.max_ns / 1000)}"
    wide = len(title) + len(tail) + len(number(histogram.count)) + 14
    return [f"{head}   {tail}"] if not screen.width or wide <= screen.width else [head, f"  {tail}"]


def _marks(histogram: Histogram, counts: list[int]) -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for q, name in _MARKS:
        found.setdefault(_octave_of(counts, q), []).append(name)
    found.setdefault(max(i for i, n in enumerate(counts) if n), []).append("max")
    return {index: " ".join(names) for index, names in found.items()} if histogram.count else {}


def _octave_of(counts: list[int], q: float) -> int:
    rank, seen = q * sum(counts), 0
    for index, n in enumerate(counts):
        seen += n
        if n and seen >= rank:
            return index
    return len(counts) - 1


def _shown(held: list[int]) -> list[int]:
    """Give the octaves that get a line: empty ones only where a few lie between others, a longer gap is one line in all."""
    shown: list[int] = []
    for index in held:
        gap = range(shown[-1] + 1 if shown else index, index)
        shown += [*(gap if len(gap) <= _GAP else ()), index]
    return shown


def _label(octave: int) -> str:
    lower = micros((1 << (octave + FIRST_BIT - 1)) / 1000) if octave else "0"
    return f"{lower:>7} .. {micros((1 << (octave + FIRST_BIT)) / 1000):>7}"


def _bar(length: float, width: int, *, unicode: bool) -> str:
    if not unicode:
        # What is there at all is seen.
        return "#" * max(1 if length > 0 else 0, round(length))
    eighths = max(1 if length > 0 else 0, round(length * 8))
    whole, part = divmod(min(eighths, width * 8), 8)
    return _EIGHTHS[8] * whole + (_EIGHTHS[part] if part else "")
