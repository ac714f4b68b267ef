"""What values a key may have: the constraint that `annotated_types` lacks, its wording for people, and redaction.

Nothing here imports pydantic; it finds what it needs through `Pattern.__get_pydantic_core_schema__`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import annotated_types as at

_SHOWN = 60  # characters of a wrong value that help to recognise it
_WORD = re.compile(r"\S+")
_PART = re.compile(r"([?&;#])([^?&;#=]*)(=[^&;#]*)?")  # of a query: separator, key, value
_CONTAINERS: dict[type, str] = {list: "an array", dict: "a table"}
_WORDS: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "true | false"}


@dataclass(frozen=True, slots=True)
class Pattern:
    """A string that matches `regex` as a whole (the common subset of Python's and Rust's syntax); `means` says it in words."""

    regex: str
    means: str

    def __get_pydantic_core_schema__(self, _source: object, _handler: Callable[[Any], object]) -> dict[str, object]:
        """Give a pydantic-core `str` schema, whatever Python type the field has (a Path is written as a string)."""
        return {"type": "str", "strict": True, "pattern": f"^(?:{self.regex})$"}


def redact(text: str) -> str:
    """Give `text` without user info and query values of URLs in it. Rather hides too much: all up to the word's last `@`."""
    return _WORD.sub(_bare_url, text)


def _bare_url(match: re.Match[str]) -> str:
    word = match[0]
    start, end = word.find("://"), word.rfind("@")
    if 0 <= start < end:
        word = f"{word[: start + 3]}***{word[end:]}"
    elif start < 0 <= word.find(":") < end:  # user:password@host, where only a host is due
        word = f"***{word[end:]}"
    if start >= 0:
        return word[:start] + _PART.sub(lambda part: part[1] + (f"{part[2]}=***" if part[3] else "***"), word[start:])
    path, mark, query = word.partition("?")
    return path + _PART.sub(lambda part: part[1] + part[2] + ("=***" if part[3] else ""), mark + query)


def one_line(text: str, limit: int = 200) -> str:
    """Give foreign text fit for one line of output: redacted, unprintable characters escaped, capped at `limit` characters."""
    shown = redact(text)
    shown = shown if len(shown) <= limit else shown[: limit - 1] + "…"
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in shown)


def shown(value: object) -> str:
    """Give a wrong value as a person wrote it, redacted and capped; of containers and dates the kind only."""
    if isinstance(value, str):
        return one_line(json.dumps(redact(value), ensure_ascii=False), _SHOWN)
    if isinstance(value, bool | float):
        return str(value).lower()
    if isinstance(value, int):  # hexadecimal ones may be too long for str(), which refuses above 4,300 digits
        return str(value) if value.bit_length() < _SHOWN * 3 else f"an integer of {value.bit_length()} bits"
    return _CONTAINERS.get(type(value), "a date")


def hint_at(hint: Any, path: tuple[str | int, ...]) -> Any:
    """Give the type hint of the value at `path` below `hint`; None if the schema has nothing there."""
    for part in path:
        hint = _child(bare(hint), part)
    return hint


def bare(hint: Any) -> Any:
    """Strip Annotated and `| None`."""
    while True:
        if get_origin(hint) is Annotated:
            hint = get_args(hint)[0]
        elif get_origin(hint) in {Union, UnionType}:
            hint = next(item for item in get_args(hint) if item is not NoneType)
        else:
            return hint


def _child(hint: Any, part: str | int) -> Any:
    if is_dataclass(hint) and isinstance(hint, type):
        return get_type_hints(hint, include_extras=True).get(str(part))
    arguments = get_args(hint)
    if get_origin(hint) is tuple:
        return arguments[0]
    return arguments[1] if get_origin(hint) is dict else None


def allowed(hint: Any) -> str:
    """Say in words what a value of type `hint` may be: `integer 1 .. 65535`, `tcp | udp`; empty for an unknown hint."""
    if get_origin(hint) in {Union, UnionType}:
        return " or ".join(allowed(item) for item in get_args(hint) if item is not NoneType)
    metadata = get_args(hint)[1:] if get_origin(hint) is Annotated else ()
    patterns = [item.means for item in metadata if isinstance(item, Pattern)]
    return patterns[0] if patterns else _kind(bare(hint)) + _range(metadata)


def _kind(hint: Any) -> str:
    if is_dataclass(hint):
        return "a table with " + ", ".join(item.name for item in fields(hint))
    if get_origin(hint) is Literal:
        return " | ".join(str(item) for item in get_args(hint))
    if get_origin(hint) is tuple:
        return f"array of {allowed(get_args(hint)[0])}"
    if get_origin(hint) is dict:
        return f"table of {allowed(get_args(hint)[1])}"
    return _WORDS.get(hint, "")


def _range(metadata: tuple[object, ...]) -> str:
    low, high, length = "", "", ""
    for item in metadata:
        match item:
            case at.Ge(ge=bound) | at.Gt(gt=bound):
                low = ("above " if isinstance(item, at.Gt) else "") + str(bound)
            case at.Le(le=bound) | at.Lt(lt=bound):
                high = ("below " if isinstance(item, at.Lt) else "") + str(bound)
            case at.MinLen(min_length=bound):
                length += f", at least {bound} long"
            case at.MaxLen(max_length=bound):
                length += f", at most {bound} long"
            case _:
                pass
    return (f" {low} .. {high}".rstrip() if low or high else "") + length
