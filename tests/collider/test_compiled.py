"""Writers as a compiler really makes them: functions of `SOURCE` by Debian's gcc 12.2, -O2 -mcmodel=kernel, linked at BASE.

`SOURCE` is what a module does with READ_ONCE and WRITE_ONCE, atomics and plain statements; look() is in another file.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from agent.collider.instruction import Operation, decode
from agent.collider.verdict import steps

BASE = 0xFFFF_FFFF_C000_0000
FRAMES, EVENTS, FLAGS, DROPS = (BASE + 0x1008, BASE + 0x1004, BASE + 0x1002, BASE + 0x1000)
SOURCE = """
void racy(struct tally *t)
{
	long seen = *(volatile long *)t->frames;
	unsigned h = 0;
	for (int i = 0; i < 1000; i++) h = mix(i, h);
	*(volatile unsigned *)&t->last = h;
	*(volatile long *)t->frames = seen + 1;
}
void called(struct tally *t)
{
	long seen = *(volatile long *)t->frames;
	look(t);
	*(volatile long *)t->frames = seen + 1;
}
void plain(void) { frames++; }
void apart(void) { *(volatile int *)&events = *(volatile int *)&events + 3; }
void bit(void) { *(volatile unsigned char *)&flags = *(volatile unsigned char *)&flags | 4; }
void saturate(void)
{
	unsigned short d = *(volatile unsigned short *)&drops;
	if (d != 0xffff) *(volatile unsigned short *)&drops = d + 1;
}
void either(long *a, int which)
{
	long seen;
	if (which) { seen = *(volatile long *)a; look(0); } else { seen = *(volatile long *)a; }
	*(volatile long *)a = seen + 1;
}
void atomic(void) { __atomic_fetch_add(&frames, 1, __ATOMIC_SEQ_CST); }
void stamp(long now) { frames = now; }
void indexed(long *a, long i) { *(volatile long *)&a[i] = *(volatile long *)&a[i] + 1; }
void loop(volatile long *a, int n) { for (int i = 0; i < n; i++) *a = *a + 1; }
"""
# name: offset of the function, its bytes
CODE = {
    "racy": (
        0x00,
        "4c8b0731d231c0498b30660f1f44000031d083c20169c0b179379e89c1c1e90f31c881fae803000075e689470c488d4601498900c3",
    ),
    "called": (0x40, "55534889fb4883ec08488b07488b28e8acffff3f488b034883c5014889284883c4085b5dc3"),
    "plain": (0x70, "488305900f000001c3"),
    "apart": (0x80, "8b057e0f000083c0038905750f0000c3"),
    "bit": (0x90, "0fb6056b0f000083c8048805620f0000c3"),
    "saturate": (0xB0, "0fb705490f00006683f8ff740a83c001668905390f0000c3"),
    "either": (
        0xD0,
        "55534889fb4883ec08488b2f85f675104883c50148892b4883c4085b5dc366904883c50131ffe805ffff3f48892b4883c4085b5dc3",
    ),
    "atomic": (0x110, "f0488305ef0e000001c3"),
    "stamp": (0x120, "48893de10e0000c3"),
    "indexed": (0x130, "488d14f7488b024883c001488902c3"),
    "loop": (0x140, "85f67e1d31d2662e0f1f840000000000488b0783c2014883c00148890739d675efc3"),
}


class Wanted(NamedTuple):
    """What the writer that ends `ends` bytes into its function is."""

    name: str
    ends: int
    way: str
    store: str
    load: str
    loaded_at: int = 0
    step: int | None = 1
    size: int = 8


CASES = (
    Wanted("racy", 0x34, "load_store", "mov qword ptr [r8], rax", "mov rsi, qword ptr [r8]", 0x07),
    Wanted("called", 0x1E, "load_store", "mov qword ptr [rax], rbp", "mov rbp, qword ptr [rax]", 0x0C),
    Wanted("plain", 0x08, "modify", "add qword ptr [rip + 0xf90], 1", ""),
    Wanted("apart", 0x0F, "load_store", "mov dword ptr [rip + 0xf75], eax", "mov eax, dword ptr [rip + 0xf7e]", 0x00, 3, 4),
    Wanted("bit", 0x10, "load_store", "mov byte ptr [rip + 0xf62], al", "movzx eax, byte ptr [rip + 0xf6b]", 0x00, None, 1),
    Wanted("saturate", 0x17, "load_store", "mov word ptr [rip + 0xf39], ax", "movzx eax, word ptr [rip + 0xf49]", 0x00, 1, 2),
    Wanted("either", 0x17, "load_store", "mov qword ptr [rbx], rbp", "mov rbp, qword ptr [rdi]", 0x09),
    Wanted("either", 0x2E, "load_store", "mov qword ptr [rbx], rbp", "mov rbp, qword ptr [rdi]", 0x09),
    Wanted("atomic", 0x09, "atomic", "lock add qword ptr [rip + 0xeef], 1", ""),
    Wanted("stamp", 0x07, "store", "mov qword ptr [rip + 0xee1], rdi", "", step=None),
    Wanted("indexed", 0x0E, "load_store", "mov qword ptr [rdx], rax", "mov rax, qword ptr [rdx]", 0x04),
    Wanted("loop", 0x1D, "load_store", "mov qword ptr [rdi], rax", "mov rax, qword ptr [rdi]", 0x10),
)


def decoded(name: str, ends: int) -> Operation:
    """Decode the writer that ends there."""
    offset, code = CODE[name]
    return decode(bytes.fromhex(code), BASE + offset, BASE + offset + ends)


@pytest.mark.parametrize("wanted", CASES, ids=lambda case: f"{case.name}+{case.ends:#x}")
def test_compiled_writers(wanted: Wanted) -> None:
    """Pins both instructions of a load and a later store, over work, calls, branches and loops; one where one does both."""
    found = decoded(wanted.name, wanted.ends)
    assert (found.way, found.text, found.load) == (wanted.way, wanted.store, wanted.load)
    assert (found.step, found.size) == (wanted.step, wanted.size)
    assert found.load_address == (BASE + CODE[wanted.name][0] + wanted.loaded_at if wanted.load else 0)


def test_the_load_and_the_store_are_of_one_variable() -> None:
    """Pins the places of variables that are addressed relative to rip: those of the linker."""
    for name, ends, address in (("apart", 0x0F, EVENTS), ("bit", 0x10, FLAGS), ("saturate", 0x17, DROPS)):
        found = decoded(name, ends)
        assert found.place is not None
        assert found.place == found.source
        assert (found.place.base, found.place.offset) == ("", address)
    place = decoded("plain", 8).place
    assert place is not None
    assert place.offset == FRAMES


def test_both_are_told() -> None:
    """Pins the words of the accusation: where it loads, and where it stores."""
    said = steps(decoded("racy", 0x34), lambda address: f"racy+{address - BASE:#x}")
    assert said == "`mov rsi, qword ptr [r8]` in racy+0x7, then `mov qword ptr [r8], rax` in racy+0x31"


def test_a_bit_is_owned() -> None:
    """Pins the bit that a load, an OR and a store set."""
    assert (decoded("bit", 0x10).sets, decoded("bit", 0x10).clears) == (4, 0)
