"""What the root-owned configuration allows: units, containers and USB ports by name. Nothing else of it is looked at.

Read anew for each request, and refused if others than root may change it; what is not of its form is not allowed
(`agentctl config check` tells of it).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from agent import place
from agent.errors import BadRequest

UNIT = re.compile(r"[A-Za-z0-9:_.@\\-]{1,245}\.service", re.ASCII)
CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
PORT = re.compile(r"[1-9][0-9]?-[1-9][0-9]?(?:\.[1-9][0-9]?){0,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Allowed:
    """The names that a request may have."""

    units: frozenset[str] = frozenset()
    containers: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()


def read(config: Path) -> Allowed:
    """Read `config`. Raises ConfigError."""
    place.require_trust(config)
    tree = place.document(place.read(config), config)
    return Allowed(
        units=frozenset(_values(tree, "workload", "unit", UNIT)),
        containers=frozenset(_values(tree, "workload", "container", CONTAINER)),
        ports=frozenset(_values(tree, "device", "usb", PORT)),
    )


def _values(tree: dict[str, object], table: str, key: str, form: re.Pattern[str]) -> Iterator[str]:
    listed = tree.get(table)
    for row in listed if isinstance(listed, list) else ():
        value = row.get(key) if isinstance(row, dict) else None
        if isinstance(value, str) and form.fullmatch(value):
            yield value


def require(name: str, known: frozenset[str], what: str, where: str) -> None:
    """Let a name of the configuration pass. Raises BadRequest."""
    if name not in known:
        raise BadRequest(
            f"{what} {name[:64]!r} is not in the configuration: {where} names {', '.join(sorted(known)) or 'none'}"
        )
