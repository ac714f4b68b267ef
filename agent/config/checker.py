"""The check against the schema, and the schema's export. Only here pydantic is imported, and only when called.

It costs 10-12 MiB resident, so agentd leaves this to a short-lived child (`python -m agent.config FILE`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field, fields, is_dataclass, make_dataclass
from itertools import islice
from json import dumps
from pathlib import Path
from typing import Any

from agent.config.constraints import allowed, bare, hint_at, one_line, shown
from agent.config.cross import Fault, faults, nearest
from agent.config.locate import KeyPath, line_of, lines
from agent.config.model import Config
from agent.config.open_sets import SETS, available, options_class
from agent.config.plain import from_plain
from agent.config.reading import fail, parse, read_text
from agent.errors import ConfigError, Problem
from agent.model import Data

_TOLD = 100  # problems of one file that are told; more help nobody
_PYDANTIC = {"extra": "forbid", "strict": True, "use_attribute_docstrings": True, "allow_inf_nan": False}


def check(path: Path) -> Config:
    """Read and check `path`. Raises ConfigError with all problems, in the order of the file."""
    text = read_text(path)
    tree = parse(path, text)
    named = {group: tuple(sorted(_named(group, tree))) for group in SETS}
    kind = _shape(named)
    found = [*_schema_faults(path, tree, kind), *faults(tree)]
    if not found:
        return from_plain(tree)
    at = lines(text)
    ordered = sorted(((line_of(at, fault.path), fault) for fault in found[:_TOLD]), key=lambda pair: pair[0])
    name = one_line(str(path))
    problems = [Problem(name, line, _key(fault.path), fault.what, fault.allowed) for line, fault in ordered]
    if len(found) > _TOLD:
        problems.append(Problem(name, problems[-1].line, "file", "has more problems than these"))
    raise ConfigError(tuple(problems))


def schema() -> Data:
    """Give the JSON Schema of agent.toml, with the options of every probe and detector there is."""
    from pydantic import TypeAdapter  # noqa: PLC0415 - see the module's docstring

    result: Data = TypeAdapter(_shape({group: available(group) for group in SETS})).json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **result}


def _named(group: str, tree: dict[str, Any]) -> set[str]:
    """Give the members of an open set that the file enables or describes, so far as they exist."""
    section = tree.get(group)
    section = section if isinstance(section, dict) else {}
    enabled = section.get("enabled", SETS[group])
    listed = {item for item in enabled if isinstance(item, str)} if isinstance(enabled, list | tuple) else set()
    return (listed | set(section)) & set(available(group))


def _shape(named: dict[str, tuple[str, ...]]) -> type:
    """Make the dataclass of the file: Config, its open sets replaced by ones with a field for each named member."""
    sets = {group: _set_shape(group, names) for group, names in named.items()}
    rows = [(group, kind, field(default_factory=kind)) for group, kind in sets.items()]
    return _configured(make_dataclass("AgentToml", rows, bases=(Config,), frozen=True), "The whole of agent.toml.")


def _set_shape(group: str, names: tuple[str, ...]) -> type:
    kinds = [(name, options_class(group, name)) for name in names]
    rows = [
        ("enabled", tuple[str, ...], field(default=SETS[group])),
        *((name, kind, field(default_factory=kind)) for name, kind in kinds),
    ]
    return _configured(make_dataclass(group.capitalize(), rows, frozen=True), f"Which {group} are on, and a table for each.")


def _configured(kind: type, doc: str) -> type:
    kind.__doc__ = doc
    kind.__pydantic_config__ = _PYDANTIC  # type: ignore[attr-defined] # pydantic's way to configure a stdlib dataclass
    return kind


def _schema_faults(path: Path, tree: dict[str, Any], kind: type) -> Iterator[Fault]:
    """Yield what single keys have wrong. Checked as JSON, where an array may be a tuple and a table a dataclass."""
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415 - see the module's docstring

    try:
        # A date has no JSON form: an empty table is wrong wherever a scalar is due, as a date is.
        text = dumps(tree, default=lambda _date: {})
        TypeAdapter(kind).validate_json(text)
    except ValidationError as error:
        for item in islice(error.errors(include_url=False, include_context=False, include_input=False), _TOLD + 1):
            yield _fault(tree, kind, item["type"], item["loc"], item["msg"])
    except (RecursionError, ValueError):  # ValueError: a hexadecimal integer of thousands of digits
        fail(
            path,
            1,
            "is nested too deeply or has an integer of thousands of digits",
            "tables a few levels deep, 64-bit integers",
        )


def _fault(tree: dict[str, Any], kind: type, error: str, loc: KeyPath, message: str) -> Fault:
    if error == "unexpected_keyword_argument":
        known = _known(kind, loc[:-1])
        return Fault(loc, f"unknown key{nearest(str(loc[-1]), known)}", ", ".join(known))
    if error in {"missing", "missing_argument"}:
        return Fault(loc, "is missing", allowed(hint_at(kind, loc)))
    if error == "json_invalid":
        return Fault((), "is nested too deeply", "tables and arrays a few levels deep")
    said = message.removeprefix("Input ").removeprefix("String ")
    said = f"does not have the form of {_form(loc)}" if "pattern" in said else said[:1].lower() + said[1:]
    return Fault(loc, f"{_value(tree, loc)} {said}", allowed(hint_at(kind, loc)))


def _known(kind: type, path: KeyPath) -> tuple[str, ...]:
    if len(path) == 1 and path[0] in SETS:
        return ("enabled", *available(str(path[0])))
    hint = bare(hint_at(kind, path))
    return tuple(item.name for item in fields(hint)) if is_dataclass(hint) else ()


def _form(loc: KeyPath) -> str:
    return f"a {loc[-1]}" if isinstance(loc[-1], str) else f"an item of {loc[-2]}"


def _value(tree: Any, loc: KeyPath) -> str:
    """Show the wrong value; those of `command`, `env`, `url` and `http` never, they may hold secrets."""
    value = tree
    for part in loc:
        value = value[part]
    secret = {"command", "env", "http", "url", "password"} & set(loc) and not isinstance(value, list | dict)
    return "this value" if secret else shown(value)


def _key(path: KeyPath) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    return one_line(text) or "file"
