"""Between the dataclasses and plain data of the shape of agent.toml (what tomllib and JSON give), without pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

from agent.config.model import Config, OpenSet
from agent.config.open_sets import SETS, available, options_class
from agent.errors import ConfigError, Problem
from agent.model import Data, Json


def from_plain(data: Mapping[str, Any]) -> Config:
    """Build the configuration from *checked* plain data; absent keys get their defaults.

    Imports the probes and detectors that are enabled. Raises ConfigError if `data` is not of the checked form.
    """
    try:
        sets: dict[str, Any] = {group: _open_set(group, data.get(group, {})) for group in SETS}
        rest = {key: value for key, value in data.items() if key not in SETS}
        return Config(**(sets | _arguments(Config, rest)))
    except (TypeError, ValueError, AttributeError, KeyError, ImportError) as error:
        raise ConfigError((Problem("checked data", 1, "config", str(error), "the output of the config check"),)) from error


def _open_set(group: str, section: Mapping[str, Any]) -> OpenSet:
    enabled = tuple(dict.fromkeys(section.get("enabled", SETS[group])))
    missing = sorted(set(enabled) - set(available(group)))
    if missing:
        raise ValueError(f"agent/{group} has no {', '.join(missing)}")
    return OpenSet(enabled, {name: _build(options_class(group, name), section.get(name, {})) for name in enabled})


def _arguments(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {key: _build(hints[key], value) for key, value in data.items()}


def _build(hint: Any, value: Any) -> Any:
    """Give `value` the type that `hint` names: tuples for arrays, Path and float where they are due, dataclasses for tables."""
    if value is None:
        return None
    hint = next((item for item in get_args(hint) if item is not NoneType), hint) if NoneType in get_args(hint) else hint
    if is_dataclass(hint) and isinstance(hint, type):
        return hint(**_arguments(hint, value))
    if get_origin(hint) is tuple:
        return tuple(_build(get_args(hint)[0], item) for item in value)
    if get_origin(hint) is dict:
        return {key: _build(get_args(hint)[1], item) for key, item in value.items()}
    return hint(value) if hint in {Path, float} else value


def to_plain(config: Config) -> Data:
    """Give what `from_plain` reads, as JSON: every key with its value, keys without one left out."""
    plain = {item.name: _plain(getattr(config, item.name)) for item in fields(config)}
    for group in SETS:
        chosen: OpenSet = getattr(config, group)
        plain[group] = {"enabled": list(chosen.enabled), **{key: _plain(value) for key, value in chosen.options.items()}}
    return {key: value for key, value in plain.items() if value is not None}


def _plain(value: Any) -> Json:
    if is_dataclass(value):
        rows = ((item.name, _plain(getattr(value, item.name))) for item in fields(value))
        return {key: item for key, item in rows if item is not None}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value
