"""Plain data as TOML text, for people to read: `agentctl config show`. Only what a configuration can hold. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from agent.model import Data, Json

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml(data: Data) -> str:
    """Give `data` as TOML 1.0: scalars before tables, lists of objects as arrays of tables."""
    return "\n".join(_table(data, ())).strip("\n")


def _table(data: Data, path: tuple[str, ...]) -> Iterator[str]:
    for key, value in data.items():
        if not _is_table(value) and not _is_tables(value) and value is not None:
            yield f"{_key(key)} = {_value(value)}"
    for key, value in data.items():
        name = ".".join(_key(part) for part in (*path, key))
        if isinstance(value, dict):
            yield ""
            yield f"[{name}]"
            yield from _table(value, (*path, key))
        elif isinstance(value, list) and _is_tables(value):
            for item in value:
                yield ""
                yield f"[[{name}]]"
                yield from _table(item if isinstance(item, dict) else {}, (*path, key))


def _is_table(value: Json) -> bool:
    return isinstance(value, dict)


def _is_tables(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Json) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case list():
            return f"[{', '.join(_value(item) for item in value)}]"
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_value(item)}" for key, item in value.items()) + " }"
    return str(value)


def _text(value: str) -> str:
    # A JSON string is a TOML basic string, but for DEL and for \u of a surrogate pair: so leave what is not ASCII as it is.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
