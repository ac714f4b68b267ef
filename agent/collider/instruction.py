"""What the instruction that wrote does to its memory, and where the value came from: x86-64, decoded by capstone.

A watchpoint traps after the write, so the writer is the instruction that *ends* at the trapped address. A plain store is
followed back to the load that its value came from; where the way is not certain (jumped into, jumped over, a call in between)
nothing is concluded from it.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from agent.collider.hits import Hit
from agent.errors import Unsupported

Way = Literal["atomic", "modify", "load_store", "store", "unknown"]
WALK = 400  # instructions back from a store
_GENERAL = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
_SAVED = {"rbx", "rbp", "r12", "r13", "r14", "r15", "rsp"}
_SIGN = {"inc": 1, "add": 1, "dec": -1, "sub": -1}
_LOADS = {"mov", "movzx", "movsx", "movsxd", "movabs"}
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


def _family() -> dict[str, str]:
    """Map every name of a general register to that of its 64 bits."""
    found: dict[str, str] = {}
    for name in _GENERAL:
        found |= dict.fromkeys((name, "e" + name, "r" + name), "r" + name)
        found[(name[0] if name.endswith("x") else name) + "l"] = "r" + name
    for number in range(8, 16):
        found |= dict.fromkeys((f"r{number}{tail}" for tail in ("", "d", "w", "b")), f"r{number}")
    return found


FAMILY = _family()


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
    still holds what was added (times `step`) when it traps. `source` is where a `load_store` loaded from, if the registers can
    still tell.
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
    if index is None:
        return replace(UNKNOWN, address=ip)
    line = lines[index]
    memory = next((item for item in line.operands if item.type == _X86_MEM), None)
    found = Operation(line.address, f"{line.mnemonic} {line.op_str}".strip(), "unknown")
    if memory is None:
        return found
    found = replace(found, size=memory.size, place=_place(line, memory))
    name = line.mnemonic.split()[-1]
    if name == "xchg" or line.prefix[0] == _LOCK:
        return replace(_arithmetic(found, line, name), way="atomic")
    if name in _MODIFIES:
        return replace(_arithmetic(found, line, name), way="modify")
    if name in _WRITES and line.operands[0].type == _X86_MEM:
        return _Walk(lines, index).store(found)
    return replace(found, way="store")


_X86_REG, _X86_IMM, _X86_MEM, _LOCK = 1, 2, 3, 0xF0  # capstone's x86_op_type, and the prefix


def _disassembler() -> Any:
    try:
        capstone = importlib.import_module("capstone")
    except ImportError as error:
        raise Unsupported("instructions cannot be decoded: capstone is missing", "pip install 'gatewarden[race]'") from error
    engine = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
    engine.detail = True
    engine.skipdata = True
    return engine


def _register(line: Any, number: int) -> str:
    return FAMILY.get(line.reg_name(number) or "", "")


def _place(line: Any, operand: Any) -> Place | None:
    """Give the place of a memory operand; None for one in a segment, which registers do not tell."""
    memory = operand.mem
    if memory.segment:
        return None
    if memory.base and line.reg_name(memory.base) == "rip":
        return Place(offset=line.address + line.size + memory.disp)
    base, index = (_register(line, number) if number else "" for number in (memory.base, memory.index))
    return Place(base, index, memory.scale, memory.disp)


def _mask(size: int) -> int:
    return (1 << 8 * size) - 1


def _arithmetic(found: Operation, line: Any, name: str) -> Operation:
    """Add what a read-modify-write instruction does to the number or the bits."""
    last = line.operands[-1]
    value = last.imm if last.type == _X86_IMM else None
    if name in {"inc", "dec"}:
        return replace(found, step=_SIGN[name])
    if name in _SIGN:
        if value is None:
            return replace(found, step=_SIGN[name], addend=_register(line, last.reg))
        return replace(found, step=_SIGN[name] * value)
    return found if value is None else _owning(found, _bits(name, value, found.size))


def _owning(found: Operation, bits: tuple[int, int]) -> Operation:
    return replace(found, sets=bits[0], clears=bits[1])


def _bits(name: str, value: int, size: int) -> tuple[int, int]:
    """Give `sets` and `clears` of a bit operation with a constant, zeros for another one."""
    mask = _mask(size)
    if name in {"bts", "btr"}:
        value = 1 << (value & 8 * size - 1)
    if name in {"or", "bts"}:
        return value & mask, 0
    if name in {"and", "btr"}:
        return 0, (~value if name == "and" else value) & mask
    return 0, 0


class _Walk:
    """Follows the value of a store back through a function."""

    def __init__(self, lines: Sequence[Any], store: int) -> None:
        self._lines = lines
        self._store = store
        self._jumps = [
            (number, line.operands[0].imm)
            for number, line in enumerate(lines)
            if line.id and line.group(1) and line.operands and line.operands[0].type == _X86_IMM
        ]
        self._blind = any(
            line.id and line.mnemonic == "jmp" and line.operands and line.operands[0].type != _X86_IMM for line in lines
        )

    def store(self, found: Operation) -> Operation:
        """Give the operation of the plain store `found`."""
        line = self._lines[self._store]
        value = line.operands[1]
        if value.type != _X86_REG:
            return replace(found, way="store")
        name = _register(line, value.reg)
        found = replace(found, way="store")
        return found if self._blind else self._back(found, name)

    def _back(self, found: Operation, name: str) -> Operation:
        use, step = self._store, 0
        for number in range(self._store - 1, max(-1, self._store - WALK), -1):
            line = self._lines[number]
            if not line.id or line.mnemonic in {"jmp", "ret"}:
                return found
            if line.group(2):  # a call
                if name not in _SAVED:
                    return found
                continue
            if name not in {_register(line, item) for item in line.regs_access()[1]}:
                continue
            if not self._certain(number, use):
                return found
            if _is_load(line):
                return self._loaded(found, line, number, step)
            moved = _moved(line, name)
            if moved is not None:
                name, use, step = moved[0], number, step + moved[1]
                continue
            bits = _bits(line.mnemonic, line.operands[1].imm, found.size) if _has_constant(line) else (0, 0)
            if not any(bits) or step or found.sets or found.clears:
                return found
            found, use = _owning(found, bits), number
        return found

    def _loaded(self, found: Operation, line: Any, number: int, step: int) -> Operation:
        source = _place(line, line.operands[1])
        if source is not None:
            kept = {source.base, source.index} - {""}
            between = self._lines[number : self._store + 1]
            if any(kept & {_register(item, write) for write in item.regs_access()[1]} for item in between if item.id):
                source = None
        bits = found.sets or found.clears
        return replace(found, way="load_store", step=None if bits else step, source=source)

    def _certain(self, made: int, used: int) -> bool:
        """Whether `used` always sees what `made` wrote: nobody jumps in between from outside, or back over it."""
        first, last = self._lines[made].address, self._lines[used].address
        for number, target in self._jumps:
            inside = made <= number <= used
            if first < target <= last and not inside:
                return False
            if inside and target <= first and not self._reloads(target, made):
                return False
        return True

    def _reloads(self, target: int, made: int) -> bool:
        """Whether a jump back to `target` comes past a load again before `made`, or `made` is the load."""
        return any(_is_load(line) for line in self._lines[: made + 1] if line.id and line.address >= target)


def _is_load(line: Any) -> bool:
    return line.mnemonic in _LOADS and len(line.operands) == 2 and line.operands[1].type == _X86_MEM


def _has_constant(line: Any) -> bool:
    return len(line.operands) == 2 and line.operands[1].type == _X86_IMM


def _moved(line: Any, name: str) -> tuple[str, int] | None:
    """Give `(register, amount)` if the line makes `name` that register plus a constant, None if it does something else."""
    if line.mnemonic == "mov" and line.operands[1].type == _X86_REG:
        return _register(line, line.operands[1].reg), 0
    if line.mnemonic in {"inc", "dec"}:
        return name, _SIGN[line.mnemonic]
    if line.mnemonic in {"add", "sub"} and _has_constant(line):
        return name, _SIGN[line.mnemonic] * line.operands[1].imm
    if line.mnemonic == "lea":
        memory = line.operands[1].mem
        if memory.base and not memory.index and line.reg_name(memory.base) != "rip":
            return _register(line, memory.base), memory.disp
    return None
