"""Writers, decoded from machine code as compilers make it."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collider.hits import REGISTERS, Hit
from agent.collider.instruction import Operation, Place, decode
from agent.errors import Unsupported

START = 0xFFFF_FFFF_C000_0000
# code before the trapped address, what it is, its step, the bits that it sets and clears
CASES: tuple[tuple[str, str, str, int | None, int, int], ...] = (
    ("f0 ff 05 00 00 00 00", "lock inc", "atomic", 1, 0, 0),
    ("f0 48 83 2a 05", "lock sub 5", "atomic", -5, 0, 0),
    ("f0 0f c1 02", "lock xadd", "atomic", None, 0, 0),
    ("48 87 02", "xchg needs no prefix", "atomic", None, 0, 0),
    ("f0 83 0a 04", "lock or", "atomic", None, 4, 0),
    ("48 ff 02", "inc", "modify", 1, 0, 0),
    ("83 02 fe", "add -2", "modify", -2, 0, 0),
    ("83 22 fb", "and ~4", "modify", None, 0, 4),
    ("0f ba 2a 03", "bts 3", "modify", None, 8, 0),
    ("83 32 01", "xor", "modify", None, 0, 0),
    ("0f b1 0a", "cmpxchg without lock", "modify", None, 0, 0),
    ("48 8b 02  48 83 c0 01  48 89 02", "load, add, store", "load_store", 1, 0, 0),
    ("8b 02  8d 48 ff  89 0a", "load, lea -1, store", "load_store", -1, 0, 0),
    ("48 8b 1a  e8 00 00 00 00  48 ff c3  48 89 1a", "kept over a call", "load_store", 1, 0, 0),
    ("48 8b 02  e8 00 00 00 00  48 ff c0  48 89 02", "not kept over a call", "store", None, 0, 0),
    ("8b 02  83 c8 01  89 02", "load, or, store", "load_store", None, 1, 0),
    ("8b 02  83 e0 fe  83 c8 10  89 02", "clear one bit, set another", "load_store", None, 16, 1),
    ("8b 02  83 c8 01  ff c0  89 02", "bits and a sum", "store", None, 0, 0),
    ("48 8b 06  48 89 02", "a copy", "store", None, 0, 0),
    ("48 c7 02 00 00 00 00", "a constant", "store", None, 0, 0),
    ("48 89 02", "an argument", "store", None, 0, 0),
    ("48 8b 02  48 01 c8  48 89 02", "plus another register", "store", None, 0, 0),
    ("48 8b 02  74 04  48 83 c0 01  48 89 02", "plus one or not", "store", None, 0, 0),
    ("48 8b 02  74 06  48 ff c0  90 eb 05  48 83 c0 01 90  48 89 02", "plus one on both ways", "load_store", 1, 0, 0),
    ("48 8b 02  48 ff c0  75 fb  48 89 02", "a sum in a loop", "store", None, 0, 0),
    ("48 8b 02  ff c9  75 fc  48 ff c0  48 89 02", "a loop beside it", "load_store", 1, 0, 0),
    ("48 8b 02  ff e1  48 ff c0  48 89 02", "a jump through a register", "store", None, 0, 0),
)


@pytest.mark.parametrize(("code", "_name", "way", "step", "sets", "clears"), CASES, ids=[case[1] for case in CASES])
def test_writers(code: str, _name: str, way: str, step: int | None, sets: int, clears: int) -> None:
    """Pins what each writer is: atomic, a plain read-modify-write, or a store of what cannot be told, and what it owns."""
    raw = bytes.fromhex(code)
    found = decode(raw + b"\x90\xc3", START, START + len(raw))
    assert (found.way, found.step, found.sets, found.clears) == (way, step, sets, clears), found


def test_what_was_added_is_in_a_register() -> None:
    """Pins an addition of a register's value: it is still there when the write traps, and it is signed."""
    found = decode(bytes.fromhex("01 0a"), START, START + 2)  # add [rdx], ecx
    regs = [0] * len(REGISTERS)
    regs[REGISTERS.index("rcx")] = 0xFFFF_FFFF_FFFF_FFFD
    hit = Hit(0, START + 2, 0, 1, 1, 0, 1, -1, "", tuple(regs))
    assert (found.way, found.delta(hit)) == ("modify", -3)


def test_where_it_wrote() -> None:
    """Pins the address of the write by the registers at the trap, and relative to rip."""
    regs = [0] * len(REGISTERS)
    regs[REGISTERS.index("rdx")], regs[REGISTERS.index("rcx")] = 0x1000, 3
    hit = Hit(0, 0, 0, 1, 1, 0, 1, -1, "", tuple(regs))
    indexed = decode(bytes.fromhex("ff 44 ca 10"), START, START + 4)  # inc dword ptr [rdx + rcx*8 + 16]
    assert indexed.place == Place("rdx", "rcx", 8, 16)
    assert indexed.place.address(hit) == 0x1000 + 24 + 16
    relative = decode(bytes.fromhex("ff 05 10 00 00 00"), START, START + 6)
    assert relative.place is not None
    assert relative.place.address(hit) == START + 6 + 0x10
    assert decode(bytes.fromhex("65 ff 02"), START, START + 3).place is None  # gs: this CPU's own


def test_a_load_from_elsewhere_is_told() -> None:
    """Pins the place that a stored value was loaded from, as long as the registers still tell it."""
    found = decode(bytes.fromhex("48 8b 01 48 ff c0 48 89 02"), START, START + 9)  # rax = [rcx] + 1; [rdx] = rax
    assert (found.way, found.source) == ("load_store", Place("rcx"))
    found = decode(bytes.fromhex("48 8b 00 48 ff c0 48 89 02"), START, START + 9)  # rax = [rax] + 1
    assert (found.way, found.source) == ("load_store", None)


def test_no_instruction_ends_there() -> None:
    """Pins that an address inside an instruction gives nothing instead of a guess."""
    assert decode(bytes.fromhex("48 c7 02 00 00 00 00"), START, START + 3).way == "unknown"


def test_without_capstone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pins the error, with its remedy, where the extra is not installed."""
    monkeypatch.setitem(sys.modules, "capstone", None)
    with pytest.raises(Unsupported, match=r"capstone is missing; pip install 'gatewarden\[race\]'"):
        decode(b"\x90", START, START + 1)


@given(st.binary(max_size=200), st.integers(0, 200))
def test_any_bytes(code: bytes, at: int) -> None:
    """Pins that no code makes the decoder fail."""
    assert isinstance(decode(code, START, START + at), Operation)
