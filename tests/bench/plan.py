"""What a family is told: how long to measure, and how often."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.bench.table import Row


@dataclass(frozen=True, slots=True)
class Plan:
    """`quick` trades precision for time."""

    quick: bool

    def of(self, full: int, quick: int) -> int:
        """Give the one of two numbers (seconds, repeats) that this run is to use."""
        return quick if self.quick else full


class Family(Protocol):
    """A module of this package that measures rows which share a set-up."""

    TITLE: str
    NEEDS: Sequence[str]
    """Markers of tests/conftest.py without which nothing here can be measured."""
    ROWS: Sequence[str]

    def seconds(self, plan: Plan) -> int:
        """Give about how long `measure` takes."""
        ...

    def measure(self, plan: Plan) -> Iterator[Row]:
        """Measure, and give the rows as they come."""
        ...


def say(text: str) -> None:
    """Tell whoever watches what is being done."""
    print(text, file=sys.stderr, flush=True)
