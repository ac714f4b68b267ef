"""Tables and quantities for people. Pure: text in, lines out."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from datetime import UTC, datetime

from agent.commands._screen import Screen, clean
from agent.model import STATES, Data, Json

GAP = "  "
NOTHING = "-"
_STEPS_US = ((1e6, "s"), (1e3, "ms"), (1.0, "us"), (1e-3, "ns"))
_STEPS_S = ((86400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s"))


def table(screen: Screen, headers: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[int] = ()) -> list[str]:
    """Give a header and a line for each row: numbers to the right, states in colour.

    What does not fit the width: first the columns `spare` are left out, one by one, then the first column is cut.
    """
    lines = [list(headers), *([clean(cell) for cell in row] for row in rows)]
    kept = _fitting(screen, lines, spare)
    cells = [[line[i] for i in kept] for line in lines]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    if screen.width:
        rest = screen.width - sum(widths[1:]) - len(GAP) * (len(widths) - 1)
        widths[0] = max(min(widths[0], rest), min(widths[0], 8))
    right = [bool(rows) and all(map(_is_number, column[1:])) for column in zip(*cells, strict=True)]
    return [
        screen.paint(_row(screen, cells[0], widths, right), "dim"),
        *(_row(screen, row, widths, right, paint=True) for row in cells[1:]),
    ]


def _fitting(screen: Screen, lines: Sequence[Sequence[str]], spare: Sequence[int]) -> list[int]:
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    kept = [*range(len(widths))]
    for column in spare:
        if screen.width and sum(widths[i] + len(GAP) for i in kept) - len(GAP) > screen.width:
            kept.remove(column)
    return kept


def _row(screen: Screen, row: Sequence[str], widths: Sequence[int], right: Sequence[bool], *, paint: bool = False) -> str:
    padded = [fit(cell, width, right=side) for cell, width, side in zip(row, widths, right, strict=True)]
    if not right[-1]:
        padded[-1] = padded[-1].rstrip()
    if paint:
        padded = [screen.paint(text, cell) if cell in STATES else text for text, cell in zip(padded, row, strict=True)]
    return GAP.join(padded)


def _is_number(cell: str) -> bool:
    return cell == NOTHING or cell[:1].isdigit()


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Pad or cut `text` to `width` columns; what is cut ends in …."""
    if len(text) > width:
        return text[: max(width - 1, 0)] + "…" if width else ""
    return text.rjust(width) if right else text.ljust(width)


def wrapped(screen: Screen, text: str, indent: str) -> list[str]:
    """Break a sentence of ours or a peer's into lines that fit, all indented."""
    if not screen.width:
        return [indent + clean(text)]
    return textwrap.wrap(clean(text), max(screen.width, len(indent) + 20), initial_indent=indent, subsequent_indent=indent)


def number(value: Json) -> str:
    """Give a count with thousands separated, a fraction in three digits, `-` if it is not known."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOTHING
    return f"{value:,}" if isinstance(value, int) else _three(value)


def seconds(value: Json) -> str:
    """Give seconds to a tenth, `-` if they are not known."""
    return f"{value:.1f} s" if isinstance(value, int | float) else NOTHING


def micros(value: Json) -> str:
    """Give microseconds in three digits with the unit that fits: `1.05 ms`."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOTHING
    if not value:
        return "0"
    step, unit = next(((step, unit) for step, unit in _STEPS_US if abs(value) >= step * 0.9995), _STEPS_US[-1])
    return f"{_three(value / step)} {unit}"


def _three(value: float) -> str:
    digits = 2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def duration(value: Json) -> str:
    """Give seconds as `3 h 12 min`."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        return NOTHING
    for large, name, small, rest in _STEPS_S:
        if value >= large:
            return f"{int(value // large)} {name} {int(value % large // small)} {rest}"
    return f"{_three(float(value))} s"


def size(value: Json, unit: int = 1) -> str:
    """Give `value` times `unit` bytes as KiB, MiB or GiB."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return NOTHING
    amount = float(value * unit)
    for name in ("B", "KiB", "MiB", "GiB"):
        if abs(amount) < 1024 or name == "GiB":
            return f"{_three(amount)} {name}"
        amount /= 1024
    return NOTHING


def when(t_wall: Json) -> str:
    """Give seconds since the epoch as UTC in ISO 8601, to the millisecond."""
    if isinstance(t_wall, bool) or not isinstance(t_wall, int | float):
        return NOTHING
    try:
        return datetime.fromtimestamp(t_wall, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
    except (OverflowError, ValueError, OSError):
        return NOTHING


def pairs(data: Data, limit: int = 12) -> str:
    """Give the plain values of an object as `key=value`, lists and objects by their size only."""
    shown = [f"{clean(key)}={_value(value)}" for key, value in list(data.items())[:limit]]
    return " ".join(shown)


def _value(value: Json) -> str:
    if isinstance(value, list | dict):
        return f"[{len(value)}]"
    return clean(value if value is not None else NOTHING)
