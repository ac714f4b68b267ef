"""The kernel's symbols, both ways: a name to its address and kind, an address to its function, a module to its data."""

from __future__ import annotations

import difflib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

from agent.errors import BadRequest, NotPermitted

DATA, TEXT = frozenset("bBdDrRsSgGvVoO"), frozenset("tTwWiI")
KERNEL = 1 << 63  # the upper half of the address space
FAR = 1 << 20  # no symbol is longer; beyond it an address lies in a gap
NEAREST = 3


@dataclass(frozen=True, slots=True)
class Symbol:
    """One line of /proc/kallsyms; `kind` is its letter, `module` empty for the kernel itself."""

    address: int
    kind: str
    name: str
    module: str = ""

    @property
    def per_cpu(self) -> bool:
        """Whether this is an offset into each CPU's own area, not an address: there they begin at zero."""
        return self.address < KERNEL

    def __str__(self) -> str:
        """`name` or `name [module]`."""
        return f"{self.name} [{self.module}]" if self.module else self.name


class Symbols:
    """All symbols, sorted by address."""

    def __init__(self, lines: Iterable[str]) -> None:
        """Parse kallsyms; lines of another form are left out. Raises NotPermitted if all addresses are hidden."""
        found = [symbol for line in lines if (symbol := _parsed(line)) is not None]
        if not any(symbol.address for symbol in found):
            raise NotPermitted("kernel addresses are hidden", "run as root, with kernel.kptr_restrict at most 1")
        self._rows = sorted(found, key=lambda symbol: symbol.address)
        self._starts = [symbol.address for symbol in self._rows]
        self._by_name: dict[str, list[Symbol]] = {}
        for symbol in self._rows:
            self._by_name.setdefault(symbol.name, []).append(symbol)
        self._per_cpu = self._range("__per_cpu_start", "__per_cpu_end")

    def find(self, name: str) -> Symbol:
        """Give the data symbol `name`, or `module:name`.

        Raises BadRequest for one that is unknown (with the nearest names), ambiguous, text, or per CPU.
        """
        module, _, bare = name.rpartition(":")
        found = [symbol for symbol in self._by_name.get(bare, []) if not module or symbol.module == module]
        if not found:
            raise BadRequest(f"no kernel symbol {name!r}{self._instead(bare)}")
        data = [symbol for symbol in found if self.refused(symbol) is None]
        if not data:
            raise BadRequest(f"{name} {self.refused(found[0])}")
        if len(data) > 1:
            raise BadRequest(f"{len(data)} symbols are called {bare}: {', '.join(_choice(symbol) for symbol in data[:8])}")
        return data[0]

    def function(self, name: str) -> Symbol:
        """Give the function `name`, or `module:name`. Raises BadRequest for one that is unknown, ambiguous, or data."""
        module, _, bare = name.rpartition(":")
        found = [symbol for symbol in self._by_name.get(bare, []) if not module or symbol.module == module]
        text = [symbol for symbol in found if symbol.kind in TEXT]
        if len(text) == 1:
            return text[0]
        if text:
            raise BadRequest(f"{len(text)} functions are called {bare}: {', '.join(_choice(symbol) for symbol in text[:8])}")
        if found:
            raise BadRequest(f"{name} is no function (kind {found[0].kind!r} in /proc/kallsyms)")
        near = self.near(bare, TEXT)
        raise BadRequest(f"no kernel function {name!r}" + (f", did you mean {' or '.join(near)}?" if near else ""))

    def refused(self, symbol: Symbol) -> str | None:
        """Say why a symbol cannot be watched, None if it can."""
        if symbol.kind in TEXT:
            return "is text (a function), not data: name the variable that it writes"
        if symbol.per_cpu or self._per_cpu[0] <= symbol.address < self._per_cpu[1]:
            return "is per-CPU data: each CPU has its own, so two CPUs do not meet there"
        if symbol.kind not in DATA:
            return f"is no data (kind {symbol.kind!r} in /proc/kallsyms)"
        return None

    def _instead(self, name: str) -> str:
        if near := self.near(name):
            return f", did you mean {' or '.join(near)}?"
        if any(symbol.kind in "bBdD" and not symbol.name.startswith("__") for symbol in self._rows):
            return ""  # what the linker makes begins so
        return "; this kernel names no variables (CONFIG_KALLSYMS_ALL is off): give an address"

    def near(self, name: str, kinds: frozenset[str] = DATA) -> list[str]:
        """Give the names of symbols of these kinds that look most like `name`."""
        head = name[:1].lower()
        names = {
            symbol.name
            for symbol in self._rows
            if symbol.kind in kinds and abs(len(symbol.name) - len(name)) <= 3 and symbol.name[:1].lower() == head
        }
        return difflib.get_close_matches(name, sorted(names), NEAREST, 0.7)

    def at(self, address: int) -> Symbol | None:
        """Give the nearest symbol at or below `address`."""
        index = bisect_right(self._starts, address) - 1
        if index < 0 or address - self._starts[index] >= FAR or self._starts[index] < KERNEL:
            return None
        first = bisect_left(self._starts, self._starts[index])
        return self._rows[first]

    def label(self, address: int) -> str:
        """Give `name+0x1f [module]`, or the number where no symbol is near."""
        symbol = self.at(address)
        if symbol is None:
            return hex(address)
        offset = address - symbol.address
        place = f"{symbol.name}+{offset:#x}" if offset else symbol.name
        return f"{place} [{symbol.module}]" if symbol.module else place

    def room(self, symbol: Symbol, most: int) -> int:
        """Give the bytes from a symbol to the next one, at most `most`: as kallsyms has no sizes, an upper bound of its own."""
        index = bisect_right(self._starts, symbol.address)
        end = self._starts[index] if index < len(self._starts) else symbol.address + most
        return min(most, end - symbol.address)

    def data_of(self, module: str) -> list[Symbol]:
        """Give the data symbols of a module that somebody might write to."""
        return [
            symbol
            for symbol in self._rows
            if symbol.module == module and symbol.kind in "bBdD" and self.refused(symbol) is None and not _made(symbol.name)
        ]

    def functions_of(self, module: str) -> frozenset[int]:
        """Give the addresses of a module's functions."""
        return frozenset(symbol.address for symbol in self._rows if symbol.module == module and symbol.kind in TEXT)

    def module_of(self, function: str) -> str:
        """Give the module of a function, empty for the kernel's own and for unknown ones."""
        name = function.split("+", maxsplit=1)[0].split("@", maxsplit=1)[0].split(" ", maxsplit=1)[0]
        return next((symbol.module for symbol in self._by_name.get(name, []) if symbol.kind in TEXT), "")

    def modules(self) -> list[str]:
        """Give the names of all loaded modules."""
        return sorted({symbol.module for symbol in self._rows if symbol.module})

    def _range(self, first: str, last: str) -> tuple[int, int]:
        ends = [self._by_name.get(name) for name in (first, last)]
        return (ends[0][0].address, ends[1][0].address) if ends[0] and ends[1] else (0, 0)


def _parsed(line: str) -> Symbol | None:
    fields = line.split()
    if len(fields) < 3:
        return None
    try:
        address = int(fields[0], 16)
    except ValueError:
        return None
    return Symbol(address, fields[1], fields[2], fields[3].strip("[]") if len(fields) > 3 else "")


def _choice(symbol: Symbol) -> str:
    return f"{symbol.module}:{symbol.name}" if symbol.module else f"{symbol.address:#x}"


def _made(name: str) -> bool:
    """Whether the build made this symbol: nothing of the module's own state."""
    return name.startswith(("__", "_rs.", "descriptor.", "$", ".")) or "__UNIQUE_ID" in name
