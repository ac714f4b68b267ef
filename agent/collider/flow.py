"""Where the value in a register came from, over all ways that lead to an instruction: reaching definitions in one function.

Jumps through a register hide ways (a switch): a function that has them gives no origins. Parts of a function that the compiler
moved to `name.cold` are not seen; the values at run time have to bear out what is concluded here (`conservation.borne_out`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

X86_REG, X86_IMM, X86_MEM = 1, 2, 3  # capstone's x86_op_type
_JUMP, _CALL = 1, 2  # its groups
_GENERAL = ("ax", "bx", "cx", "dx", "si", "di", "bp", "sp")
_KEPT = {"rbx", "rbp", "r12", "r13", "r14", "r15", "rsp"}  # over a call
_LOADS = {"mov", "movzx", "movsx", "movsxd", "movabs"}
SIGN = {"inc": 1, "add": 1, "dec": -1, "sub": -1}
_STEPS = 16  # of arithmetic between load and store
_OUTSIDE = -1
_ADDRESS = (1 << 64) - 1


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


def register(line: Any, number: int) -> str:
    """Give the 64-bit name of a register of capstone's, empty for none and for other kinds."""
    return FAMILY.get(line.reg_name(number) or "", "")


def bits(name: str, value: int, size: int) -> tuple[int, int]:
    """Give the bits that an operation with a constant sets and clears; zeros for one that does neither."""
    mask = (1 << 8 * size) - 1
    if name in {"bts", "btr"}:
        value = 1 << (value & 8 * size - 1)
    if name in {"or", "bts"}:
        return value & mask, 0
    if name in {"and", "btr"}:
        return 0, (~value if name == "and" else value) & mask
    return 0, 0


@dataclass(frozen=True, slots=True)
class Origin:
    """A value is what instruction `load` loaded, plus `step`, with the bits `sets` set and `clears` cleared."""

    load: int
    step: int = 0
    sets: int = 0
    clears: int = 0

    def same(self, other: Origin) -> bool:
        """Whether the value was changed in the same way."""
        return replace(self, load=0) == replace(other, load=0)


class Flow:
    """The lines of one function, and which come before which; what cannot be reached from its start counts as none."""

    def __init__(self, lines: Sequence[Any]) -> None:
        self.lines = lines
        self._before: list[list[int]] = [[] for _ in lines]
        self._blind = False
        places = {line.address: number for number, line in enumerate(lines)}
        reached, wave = {0}, [0]
        while wave:
            here = wave.pop()
            for number in self._after(here, places):
                self._before[number].append(here)
                if number not in reached:
                    reached.add(number)
                    wave.append(number)

    def _after(self, number: int, places: dict[int, int]) -> list[int]:
        line = self.lines[number]
        ends = not line.id or line.mnemonic in {"jmp", "ret", "int3", "ud2"} or number + 1 == len(self.lines)
        found = [] if ends else [number + 1]
        if line.id and line.group(_JUMP) and line.operands:
            target = line.operands[0]
            self._blind |= line.mnemonic == "jmp" and target.type != X86_IMM
            where = target.imm & _ADDRESS if target.type == X86_IMM else 0
            if where in places:
                found.append(places[where])
        return found

    def origin(self, index: int, name: str, size: int) -> Origin | None:
        """Give where the value of a register before line `index` came from, None if that is no load, or not certain."""
        return None if self._blind or not name else self._origin(index, name, size, ())

    def unchanged(self, name: str, first: int, last: int) -> bool:
        """Whether a register holds the same at two lines, as far as can be told."""
        return self._made(first, name) == self._made(last, name)

    def _origin(self, index: int, name: str, size: int, trail: tuple[int, ...]) -> Origin | None:
        makers = self._made(index, name)
        if _OUTSIDE in makers or len(trail) > _STEPS:
            return None
        origins = [None if maker in trail else self._step(maker, name, size, (*trail, maker)) for maker in sorted(makers)]
        first = origins[0] if origins else None
        return first if first and all(item is not None and first.same(item) for item in origins) else None

    def _step(self, maker: int, name: str, size: int, trail: tuple[int, ...]) -> Origin | None:
        line = self.lines[maker]
        if _is_load(line):
            return Origin(maker)
        moved = _moved(line, name)
        if moved is not None:
            origin = self._origin(maker, moved[0], size, trail)
            return (
                replace(origin, step=origin.step + moved[1])
                if origin and not (moved[1] and origin.sets | origin.clears)
                else None
            )
        changed = bits(line.mnemonic, line.operands[1].imm, size) if _has_constant(line) else (0, 0)
        if not any(changed):
            return None
        origin = self._origin(maker, name, size, trail)
        if origin is None or origin.step:
            return None
        sets, clears = changed
        return replace(origin, sets=(origin.sets & ~clears) | sets, clears=(origin.clears & ~sets) | clears)

    def _made(self, index: int, name: str) -> frozenset[int]:
        """Give the lines that may have made the value of a register before line `index`; -1 for outside the function."""
        makers: set[int] = set()
        seen: set[int] = set()
        wave = [index]
        while wave:
            here = wave.pop()
            if not self._before[here]:
                makers.add(_OUTSIDE)
            for number in self._before[here]:
                if number in seen:
                    continue
                seen.add(number)
                kind = self._makes(number, name)
                if kind is None:
                    wave.append(number)
                else:
                    makers.add(kind)
        return frozenset(makers)

    def _makes(self, number: int, name: str) -> int | None:
        line = self.lines[number]
        if line.group(_CALL):
            return None if name in _KEPT else _OUTSIDE
        return number if name in {register(line, item) for item in line.regs_access()[1]} else None


def _is_load(line: Any) -> bool:
    return line.mnemonic in _LOADS and len(line.operands) == 2 and line.operands[1].type == X86_MEM


def _has_constant(line: Any) -> bool:
    return len(line.operands) == 2 and line.operands[1].type == X86_IMM


def _moved(line: Any, name: str) -> tuple[str, int] | None:
    """Give `(register, amount)` if the line makes `name` that register plus a constant, None if it does something else."""
    if line.mnemonic == "mov" and line.operands[1].type == X86_REG:
        return register(line, line.operands[1].reg), 0
    if line.mnemonic in {"inc", "dec"}:
        return name, SIGN[line.mnemonic]
    if line.mnemonic in {"add", "sub"} and _has_constant(line):
        return name, SIGN[line.mnemonic] * line.operands[1].imm
    if line.mnemonic == "lea":
        memory = line.operands[1].mem
        if memory.base and not memory.index and line.reg_name(memory.base) != "rip":
            return register(line, memory.base), memory.disp
    return None
