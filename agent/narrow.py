"""Narrowing JSON that came from elsewhere (a status, a snapshot, an event): what is of another type is as good as absent."""

from __future__ import annotations

from agent.model import STATES, Data, Json, State

_MOST = 1e300


def number(value: Json) -> float:
    """Give a finite number, 0 for anything else: Python reads NaN, 1e999 and integers that are no float."""
    return value if isinstance(value, int | float) and -_MOST < value < _MOST else 0.0


def count(value: Json) -> int:
    """Give a whole number, 0 for anything else."""
    return value if isinstance(value, int) else 0


def state(value: Json) -> State:
    """Give a state, `unknown` for anything else."""
    return next((known for known in STATES if known == value), "unknown")


def objects(value: Json) -> dict[str, Data]:
    """Give the objects of an object by name; what else is in it is left out."""
    return {name: row for name, row in value.items() if isinstance(row, dict)} if isinstance(value, dict) else {}


def rows(holder: Data, key: str) -> list[Data]:
    """Give the objects of the list under `key`; what else is in it is left out."""
    found = holder.get(key)
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def part(holder: Data, key: str) -> Data:
    """Give the object under `key`, an empty one for anything else."""
    found = holder.get(key)
    return found if isinstance(found, dict) else {}
