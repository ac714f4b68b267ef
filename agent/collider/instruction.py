"""What the instruction that wrote does to its memory, and where the value came from: x86-64, decoded by capstone.

A watchpoint traps after the write, so the writer is the instruction that *ends* at the trapped address. A plain store is
followed back, over all ways that lead to it, to the loads that its value came from (`flow.py`); where that is not certain
nothing is concluded from it.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent.collider.flow import SIGN, X86_IMM, X86_MEM, X86_REG, Flow, bits, register
from agent.collider.hits import Hit
from agent.errors import Unsupported

Way = Literal["atomic", "modify", "load_store", "store", "unknown"]
_LOCK = 0xF0  # the prefix
_WRITES = {"mov", "movnti", "movabs"}
_MODIFIES = frozenset(
    (
        *("add", "sub", "inc", "dec", "adc", "sbb", "neg", "xadd", "cmpxchg", "cmpxchg8b", "cmpxchg16b"),
        *(
            "or",
            "and",
            "xor",
            "not",
            "bts",
            "btr",
            "btc",
            "shl",
            "sal",
            "shr",
            "sar",
            "rol",
            "ror",
            "rcl",
            "rcr",
            "shld",
            "shrd",
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Place:
    """A memory operand: base + index * scale + offset; one relative to rip has its address in `offset`."""

    base: str = ""
    index: str = ""
    scale: int = 1
    offset: int = 0

    def address(self, hit: Hit) -> int:
        """Give where it lies with the registers of `hit`."""
        base = hit.register(self.base) if self.base else 0
        index = hit.register(self.index) * self.scale if self.index else 0
        return (base + index + self.offset) & (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Operation:
    """What a writer does.

    `step` is the constant that it adds; `sets` and `clears` are the bits that it owns. `addend` names the 64-bit register that
    still holds what was added (times `step`) when it traps. `load` is the instruction at `load_address` by which a `load_store`
    loaded (one of them, if several ways lead to the store), `source` where it loaded from, if the registers can still tell.
    """

    address: int
    text: str
    way: Way
    size: int = 0
    place: Place | None = None
    step: int | None = None
    addend: str = ""
    sets: int = 0
    clears: int = 0
    source: Place | None = None
    load: str = ""
    load_address: int = 0

    @property
    def atomic(self) -> bool:
        """Whether no other CPU can write between its read and its write."""
        return self.way == "atomic"

    @property
    def plain(self) -> bool:
        """Whether it reads and writes back without a lock of the bus."""
        return self.way in {"modify", "load_store"}

    def delta(self, hit: Hit) -> int | None:
        """Give what this write added, None if it is no addition of a known amount."""
        if self.step is None or not self.addend:
            return self.step
        bits = 8 * self.size
        raw = hit.register(self.addend) & (1 << bits) - 1
        return self.step * (raw - (1 << bits) if raw >> bits - 1 else raw)


UNKNOWN = Operation(0, "(not decoded)", "unknown")


def decode(code: bytes, start: int, ip: int) -> Operation:
    """Decode the writer that ends at `ip`; `code` is its function, from `start` on. Raises Unsupported without capstone."""
    lines = list(_disassembler().disasm(code, start))
    index = next((number for number, line in enumerate(lines) if line.address + line.size == ip), None)
    if index is None or not lines[index].id:
        return replace(UNKNOWN, address=ip)
    line = lines[index]
    memory = next((item for item in line.operands if item.type == X86_MEM), None)
    found = Operation(line.address, _text(line), "unknown")
    if memory is None:
        return found
    found = replace(found, size=memory.size, place=_place(line, memory))
    name = line.mnemonic.split()[-1]
    if name == "xchg" or line.prefix[0] == _LOCK:
        return replace(_arithmetic(found, line, name), way="atomic")
    if name in _MODIFIES:
        return replace(_arithmetic(found, line, name), way="modify")
    if name in _WRITES and line.operands[0].type == X86_MEM:
        return _stored(Flow(lines), index, found)
    return replace(found, way="store")


def _disassembler() -> Any:
    try:
        capstone = importlib.import_module("capstone")
    except ImportError as error:
        raise Unsupported("instructions cannot be decoded: capstone is missing", "pip install 'gatewarden[race]'") from error
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    engine.skipdata = True
    return engine


def _text(line: Any) -> str:
    return f"{line.mnemonic} {line.op_str}".strip()


def _place(line: Any, operand: Any) -> Place | None:
    """Give the place of a memory operand; None for one in a segment, which registers do not tell."""
    memory = operand.mem
    if memory.segment:
        return None
    if memory.base and line.reg_name(memory.base) == "rip":
        return Place(offset=line.address + line.size + memory.disp)
    base, index = (register(line, number) if number else "" for number in (memory.base, memory.index))
    return Place(base, index, memory.scale, memory.disp)


def _arithmetic(found: Operation, line: Any, name: str) -> Operation:
    """Add what a read-modify-write instruction does to the number or the bits."""
    last = line.operands[-1]
    value = last.imm if last.type == X86_IMM else None
    if name in {"inc", "dec"}:
        return replace(found, step=SIGN[name])
    if name in SIGN:
        if value is None:
            return replace(found, step=SIGN[name], addend=register(line, last.reg))
        return replace(found, step=SIGN[name] * value)
    sets, clears = bits(name, value, found.size) if value is not None else (0, 0)
    return replace(found, sets=sets, clears=clears)


def _stored(flow: Flow, index: int, found: Operation) -> Operation:
    """Tell a store of a value that was loaded and changed from other stores."""
    found = replace(found, way="store")
    value = flow.lines[index].operands[1]
    if value.type != X86_REG:
        return found
    origin = flow.origin(index, register(flow.lines[index], value.reg), found.size)
    if origin is None or not (origin.step or origin.sets or origin.clears):
        return found  # not loaded, or loaded and copied as it was
    load = flow.lines[origin.load]
    source = _place(load, load.operands[1])
    if source is not None and not all(flow.unchanged(name, origin.load, index) for name in (source.base, source.index) if name):
        source = None
    return replace(
        found,
        way="load_store",
        step=None if origin.sets | origin.clears else origin.step,
        sets=origin.sets,
        clears=origin.clears,
        source=source,
        load=_text(load),
        load_address=load.address,
    )
