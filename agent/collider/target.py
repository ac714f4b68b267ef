"""What to watch, as people write it: `[*]SYMBOL[+OFF][:LEN]` or `[*]0xADDRESS[+OFF][:LEN]`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from agent.collider.symbols import KERNEL, TEXT, Symbols
from agent.errors import BadRequest
from agent.ports import WatchSpot

LENGTHS = (1, 2, 4, 8)
MOST_TEXT = 256
_FORM = re.compile(
    r"(?P<star>\*?)"
    r"(?:(?P<address>0x[0-9a-fA-F]{1,16})|(?P<symbol>(?:[A-Za-z_][\w-]*:)?[A-Za-z_][\w.$]*))"
    r"(?:\+(?P<offset>0x[0-9a-fA-F]{1,8}|[0-9]{1,9}))?"
    r"(?::(?P<length>[0-9]{1,9}))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Target:
    """The parts of the text; `length` 0 means: as long as alignment and the next symbol allow."""

    text: str
    name: str
    address: int
    through: bool
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Watched:
    """A place in the running kernel, and the name it is shown by."""

    name: str
    spot: WatchSpot
    guessed: bool
    """Whether the length is a guess, to be replaced by that of the writing instructions."""


def parse(text: str) -> Target:
    """Read the expression. Raises BadRequest that shows the form."""
    found = _FORM.fullmatch(text) if len(text) <= MOST_TEXT else None
    if found is None:
        raise BadRequest(f"{text[:64]!r} is no place to watch, want [*]SYMBOL[+OFF][:LEN] or [*]0xADDRESS[+OFF][:LEN]")
    length = int(found["length"] or 0)
    if found["length"] and length not in LENGTHS:
        raise BadRequest(f"{text}: a watchpoint is 1, 2, 4 or 8 bytes long, not {length}")
    return Target(
        text,
        found["symbol"] or "",
        int(found["address"] or "0", 16),
        bool(found["star"]),
        _offset(found["offset"] or "0"),
        length,
    )


def _offset(text: str) -> int:
    return int(text, 16 if text.startswith("0x") else 10)


def place(target: Target, symbols: Symbols, pointer: Callable[[int], int | None]) -> Watched:
    """Find the address; `pointer` reads one from kernel memory. Raises BadRequest for what cannot be watched."""
    symbol = symbols.find(target.name) if target.name else None
    start = symbol.address if symbol else target.address
    if target.through:
        _kernel_data(start, target, symbols)
        there = pointer(start)
        if there is None or there < KERNEL:
            raise BadRequest(f"{target.text}: {start:#x} holds {there or 0:#x}, which is no pointer to kernel data")
        start = there
    address = start + target.offset
    _kernel_data(address, target, symbols)
    room = symbols.room(symbol, 1 << 20) - target.offset if symbol and not target.through else 8
    length = target.length or max(item for item in LENGTHS if address % item == 0 and item <= max(room, 1))
    if address % length:
        raise BadRequest(f"{target.text}: {address:#x} is not a multiple of its length {length}; allowed: {_fits(address)}")
    return Watched(target.text, WatchSpot(address, length), not target.length)


def _kernel_data(address: int, target: Target, symbols: Symbols) -> None:
    if address < KERNEL:
        raise BadRequest(f"{target.text}: {address:#x} is a user-space address (or a per-CPU offset), want kernel data")
    if address >= 1 << 64:
        raise BadRequest(f"{target.text}: {address:#x} lies beyond the address space")
    near = symbols.at(address)
    if near is not None and near.kind in TEXT:
        raise BadRequest(f"{target.text}: {address:#x} is text ({near}), want data")
    if near is not None and near.address == address and (reason := symbols.refused(near)):
        raise BadRequest(f"{target.text}: {near} {reason}")


def _fits(address: int) -> str:
    return ", ".join(f":{length}" for length in LENGTHS if address % length == 0)
