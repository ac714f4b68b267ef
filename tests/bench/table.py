"""Rows, their verdicts, and the one table at the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from agent.model import Data

HEADER = ("ROW", "WHAT", "MEASURED", "MUST", "AIM", "VERDICT")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. Less is better in all of them; a row without `must` informs and is not judged.

    `measured` is None where it could not be measured; `note` then says why, else how it was measured or what stands beside it.
    """

    name: str
    what: str
    unit: str
    measured: float | None
    must: float | None = None
    aim: float | None = None
    note: str = ""


def unmeasured(names: Iterable[str], why: str) -> list[Row]:
    """Give a row for each name that says why it is empty."""
    return [Row(name, "", "", None, note=why) for name in names]


def verdict(row: Row) -> str:
    """Say in words how `row` stands to its bounds."""
    if row.measured is None:
        return f"not measured: {row.note}"
    if row.must is None:
        return "-"
    if row.aim is not None and row.measured <= row.aim:
        return "meets aim"
    return "meets must" if row.measured <= row.must else "MISSES"


def number(value: float | None, unit: str) -> str:
    """Give a value of at most four figures with its unit, `-` for none."""
    if value is None:
        return "-"
    digits = 0 if value == int(value) or abs(value) >= 1000 else 1 if abs(value) >= 100 else 2
    text = f"{value:,.{digits}f}"
    return f"{text} {unit}" if unit else text


def lines(rows: Sequence[Row]) -> list[str]:
    """Render the table: aligned columns, the note of a measured row on a line of its own below it."""
    cells = [HEADER, *(_cells(row) for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
    found = [_line(HEADER, widths)]
    for row, line in zip(rows, cells[1:], strict=True):
        found.append(_line(line, widths))
        if row.note and row.measured is not None:
            found.append(f"    {row.note}")
    return found


def _cells(row: Row) -> tuple[str, ...]:
    bounds = (number(row.must, row.unit), number(row.aim, row.unit))
    return (row.name, row.what, number(row.measured, row.unit), *bounds, verdict(row))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [
        f"{cell:>{width}}" if 2 <= at <= 4 else f"{cell:<{width}}"
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def plain(row: Row) -> Data:
    """Give `row` as JSON, with its verdict."""
    return {**asdict(row), "verdict": verdict(row)}


def quantile(values: Sequence[float], q: float) -> float:
    """Give the smallest of `values` that a share `q` of them does not exceed. Raises ValueError if there are none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -int(-q * len(ordered) // 1) - 1))]
