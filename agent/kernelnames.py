"""Ports to the kernel's symbols, and what a probe puts into its maps by them (`agent/placing.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol


class KernelNames(Protocol):
    """The kernel's symbols by name. Both raise BadRequest, with the nearest names for one that is unknown."""

    def data(self, place: str, length: int) -> int:
        """Give the address of `length` bytes of data at `[MODULE:]SYMBOL[+OFFSET]`; refused are text and per-CPU data."""
        ...

    def function(self, name: str) -> int:
        """Give the address of the function `[MODULE:]NAME`."""
        ...


@dataclass(frozen=True, slots=True)
class Placement:
    """What maps shall hold, by name, key and value; `lacking` says what could not be found."""

    maps: Mapping[str, Mapping[bytes, bytes]]
    lacking: tuple[str, ...]


class Placed(Protocol):
    """What a probe module may have besides, as `placed`: for maps that hold kernel addresses, which the loader alone writes."""

    def __call__(self, options: object, names: Callable[[], KernelNames]) -> Placement:
        """Give the content of these maps. Raises a ProbeError if there is nothing to look at then."""
        ...
