"""Undone bits, held against the same model."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from agent.collider.instruction import UNKNOWN, Operation
from agent.collider.undone import undone
from tests.collider.doubles import Model, hit, interleave

SET, CLEAR, OTHER_SET, OTHER_CLEAR = 0x10, 0x20, 0x30, 0x40
OPERATIONS = {
    SET: Operation(SET - 4, "or dword ptr [rax], 1", "modify", 8, sets=1),
    CLEAR: Operation(CLEAR - 4, "and dword ptr [rax], -2", "modify", 8, clears=1),
    OTHER_SET: Operation(OTHER_SET - 4, "or dword ptr [rax], 16", "modify", 8, sets=16),
    OTHER_CLEAR: Operation(OTHER_CLEAR - 4, "and dword ptr [rax], -17", "modify", 8, clears=16),
}


def change(ip: int, value: int) -> int:
    """Do what the instruction at `ip` does."""
    return (value | OPERATIONS[ip].sets) & ~OPERATIONS[ip].clears


def lane(model: Model, cpu: int, writes: list[int]) -> Iterator[None]:
    """One CPU's atomic writes."""
    for ip in writes:
        yield from model.writer(cpu, ip, lambda value, ip=ip: change(ip, value), atomic=True)  # type: ignore[misc]


@given(
    st.lists(st.lists(st.sampled_from(sorted(OPERATIONS)), min_size=1, max_size=20), min_size=1, max_size=3),
    st.lists(st.integers(0, 2), max_size=400),
)
def test_correct_writers_undo_nothing(cpus: list[list[int]], choices: list[int]) -> None:
    """Pins that no interleaving of atomic writers and their late traps looks like an undone bit."""
    model = Model()
    interleave([lane(model, cpu, writes) for cpu, writes in enumerate(cpus)], choices)
    assert undone(model.ordered(), OPERATIONS.__getitem__) == []


def told(*writes: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Give (owner's count, reader's count, bits) of what is undone in writes of (ip, CPU, value read)."""
    hits = [hit(value, count, ip=ip, cpu=cpu) for count, (ip, cpu, value) in enumerate(writes, 1)]
    return [(case.owner.before, case.found.before, case.bits) for case in undone(hits, OPERATIONS.__getitem__)]


def test_a_stale_word_stored_over_a_bit() -> None:
    """Pins the fault: CPU 0 sets bit 0, CPU 1 stores a word that it had read before."""
    begin, end = [(OTHER_CLEAR, 1, 0), (SET, 0, 1)], [(SET, 0, 1), (OTHER_CLEAR, 1, 1), (SET, 0, 1), (OTHER_SET, 1, 17)]
    assert told(*begin, (SET, 0, 1), (OTHER_SET, 1, 16), *end) == [(3, 4, 1)]
    assert told(*begin, (SET, 0, 1), (OTHER_SET, 1, 17), *end) == []


def test_whoever_may_clear_it_is_not_accused() -> None:
    """Pins the silence while a writer that clears the bit was, or may have been, at work; or stores what cannot be told."""
    begin = [(OTHER_CLEAR, 1, 0), (SET, 0, 1), (SET, 0, 1), (OTHER_SET, 1, 16)]
    assert told(*begin, (CLEAR, 0, 16), (OTHER_CLEAR, 1, 0), (SET, 0, 1), (OTHER_SET, 1, 17)) == []
    assert undone([hit(0, count, cpu=count % 2) for count in range(1, 9)], lambda _ip: UNKNOWN) == []
