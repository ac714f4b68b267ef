"""JSON Schemas, made from the types that the code itself uses. pydantic comes in here, when a schema is asked for."""

from __future__ import annotations

import importlib
from functools import reduce
from operator import or_
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from agent import config, kinds
from agent.commands import _messages, _race_shapes, _video_shapes
from agent.commands._shapes import Event, Held, Metrics, Resumed, Status, Watchdogs, Workloads
from agent.model import Data

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_ROOTS: dict[str, type] = {**_messages.SHAPES, **_race_shapes.SHAPES, "event": Event, "metrics": Metrics, "status": Status}
_ROOTS |= _video_shapes.SHAPES | {"workloads": Workloads, "watchdog": Watchdogs, "hold": Held, "resume": Resumed}


def names() -> tuple[str, ...]:
    """Give the names of all schemas."""
    return ("config", *sorted(_ROOTS), *sorted(_kinds()))


def of(name: str) -> Data:
    """Give one schema out of `names()`."""
    if name == "config":
        return config.schema()
    from pydantic import TypeAdapter  # noqa: PLC0415 - see the module's docstring

    shape = _ROOTS.get(name) or _kinds()[name]
    made: Data = TypeAdapter(_readable(shape)).json_schema()
    return {"$schema": DIALECT, **made}


def _kinds() -> dict[str, type]:
    found: dict[str, type] = {}
    for path in sorted(Path(kinds.__file__).parent.glob("[a-z]*.py")):
        found |= importlib.import_module(f"agent.kinds.{path.stem}").KINDS
    return found


def _readable(hint: Any) -> Any:
    """Give `hint` with each TypedDict in it as one of typing_extensions: pydantic refuses typing's own before Python 3.12."""
    from typing_extensions import NotRequired, TypedDict  # noqa: PLC0415, UP035 - comes with pydantic

    if not is_typeddict(hint):
        inner = get_args(hint)
        origin = get_origin(hint)
        if origin is UnionType:
            return reduce(or_, map(_readable, inner))
        return origin[tuple(_readable(item) for item in inner)] if origin in {list, dict, tuple} and inner else hint
    hints = {key: _readable(item) for key, item in get_type_hints(hint, include_extras=True).items()}
    fields = {key: item if key in hint.__required_keys__ else NotRequired[item] for key, item in hints.items()}
    made: Any = TypedDict(hint.__name__, fields)  # type: ignore[misc] # its keys are known only now
    made.__doc__ = hint.__doc__
    return made
