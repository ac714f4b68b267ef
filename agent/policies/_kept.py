"""Reading back what a policy kept: each reader gives what it promises, or raises StoreError that says what it met."""

from __future__ import annotations

from agent.errors import StoreError
from agent.model import Data, Json

_MOST_NS = 1 << 62
_MOST_S = 10 * 365 * 86400.0


def row(value: Json) -> Data:
    """Give an object."""
    if not isinstance(value, dict):
        raise StoreError(f"not an object: {str(value)[:80]}")
    return value


def table(value: Json, most: int) -> Data:
    """Give an object of at most `most` members."""
    found = row(value)
    if len(found) > most:
        raise StoreError(f"{len(found)} entries where {most} are allowed")
    return found


def items(value: Json, most: int) -> list[Json]:
    """Give a list of at most `most` items."""
    if not isinstance(value, list) or len(value) > most:
        raise StoreError(f"not a list of at most {most}: {str(value)[:80]}")
    return value


def whole(value: Json, least: int, most: int) -> int:
    """Give a whole number between two bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise StoreError(f"{str(value)[:40]} is no whole number of {least} .. {most}")
    return value


def time(holder: Data, key: str) -> int:
    """Give a time in ns; it may lie before this boot."""
    return whole(holder.get(key), -_MOST_NS, _MOST_NS)


def seconds(holder: Data, key: str) -> float:
    """Give a length of time."""
    found = holder.get(key)
    if isinstance(found, bool) or not isinstance(found, int | float) or not 0 <= found <= _MOST_S:  # not NaN either
        raise StoreError(f"{key} is {str(found)[:40]}, allowed: 0 .. {_MOST_S:g}")
    return float(found)


def text(holder: Data, key: str) -> str:
    """Give a text."""
    found = holder.get(key)
    if not isinstance(found, str):
        raise StoreError(f"{key} is {str(found)[:40]}, and no text")
    return found
