"""Conservation, held against a model of CPUs whose every step Hypothesis interleaves."""

from __future__ import annotations

from collections.abc import Iterator

from hypothesis import given
from hypothesis import strategies as st

from agent.collider import conservation
from tests.collider.doubles import ATOMIC, PLAIN, Model, hit, interleave

CHOICES = st.lists(st.integers(0, 3), max_size=400)
WRITES = st.lists(st.booleans(), min_size=1, max_size=30)  # for one CPU: whether each write is trapped


def lane(model: Model, cpu: int, seen: list[bool], *, atomic: bool) -> Iterator[None]:
    """One CPU's writes, one after the other."""
    for trapped in seen:
        yield from model.writer(cpu, ATOMIC if atomic else PLAIN, lambda value: value + 1, atomic=atomic, unseen=not trapped)


@given(st.lists(WRITES, min_size=1, max_size=4), CHOICES)
def test_nothing_is_lost_by_correct_writers(cpus: list[list[bool]], choices: list[int]) -> None:
    """Pins that no interleaving of atomic writers, their traps and traps that were missed makes a deficit."""
    model = Model()
    interleave([lane(model, cpu, seen, atomic=True) for cpu, seen in enumerate(cpus)], choices)
    assert conservation.balance(model.ordered(), 1, len(cpus), 8).lost == 0 if model.hits else True


@given(st.lists(WRITES, min_size=1, max_size=4), CHOICES)
def test_no_more_is_proved_than_was_lost(cpus: list[list[bool]], choices: list[int]) -> None:
    """Pins that the deficit of plain writers is at most what the model knows to be lost."""
    model = Model()
    interleave([lane(model, cpu, seen, atomic=False) for cpu, seen in enumerate(cpus)], choices)
    if model.hits:
        assert conservation.balance(model.ordered(), 1, len(cpus), 8).lost <= model.written - model.value


def test_losses_are_proved_beyond_the_border() -> None:
    """Pins the arithmetic: 100 writes after the first read, grown by 60, one other CPU: at least 39 were lost."""
    hits = [hit(1000, 1), hit(1030, 50), hit(1060, 101)]
    assert conservation.balance(hits, 1, 2, 8) == conservation.Balance(100, 60, 39)


def test_a_step_and_a_direction_of_its_own() -> None:
    """Pins steps other than one, and counting down."""
    assert conservation.balance([hit(0, 1), hit(40, 11)], 4, 1, 8) == conservation.Balance(10, 40, 0)
    assert conservation.balance([hit(0, 1), hit(20, 11)], 4, 1, 8).lost == 5
    assert conservation.balance([hit(100, 1), hit(95, 11)], -1, 1, 8) == conservation.Balance(10, -5, 5)


def test_reads_that_others_counted_into_are_not_ends() -> None:
    """Pins that the ends of an interval are reads during which the count stood still, where there are two of them."""
    hits = [hit(5, 1, after=9), hit(10, 10), hit(20, 20), hit(20, 21, after=25)]
    assert conservation.balance(hits, 1, 2, 8) == conservation.Balance(10, 10, 0)


@given(st.integers(0, 255), st.integers(2, 400))
def test_a_byte_that_comes_round(start: int, writes: int) -> None:
    """Pins that a short counter which wraps any number of times within a window loses nothing by it."""
    hits = [hit((start + index) % 256, index + 1) for index in range(writes)]
    found = conservation.balance(hits, 1, 1, 1)
    assert (found.lost, found.growth) == (0, writes - 1)


def test_one_direction_or_none() -> None:
    """Pins the common step: the smallest one of a direction, none if there are two directions or an unknown amount."""
    hits = [hit(0, 1), hit(0, 2)]
    steps = iter([3, 2, -2, -5, 1, -1, 1, None])
    found = [conservation.common_step(hits, lambda _hit: next(steps)) for _ in range(4)]
    assert found == [2, -2, None, None]
    assert conservation.common_step([], lambda _hit: 1) is None


def test_values_bear_a_step_out() -> None:
    """Pins which pairs count: reads that stood still, with nothing counted in between."""
    hits = [hit(1, 1), hit(2, 2), hit(3, 3, after=4), hit(9, 5), hit(12, 6)]
    assert conservation.borne_out(hits, PLAIN, 1, 8) == (2, 3)
