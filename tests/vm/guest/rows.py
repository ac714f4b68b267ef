"""What a step is told and what it gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    expected: str
    found: str
    passed: bool


@dataclass(frozen=True, slots=True)
class Setting:
    """What the host hands in: the planted modules, the unknown one, arguments for pytest; `quick` scans and proves less."""

    modules: Path
    unknown: Path
    tests: tuple[str, ...]
    quick: bool

    def module(self, name: str) -> Path:
        """Give a planted module's file."""
        return self.modules / f"{name}.ko"


Step = Callable[[Setting], Iterator[Row]]
