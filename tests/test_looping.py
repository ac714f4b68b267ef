"""looping: when ends make a loop, of a process or of a machine."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import StoreError
from agent.looping import KEPT, Life, Lives, Rule, restored

RULE = Rule(count=3, within_s=60, in_a_row=4, stable_s=300)


def lives(*lasted: float) -> Lives:
    """Give a ring of lives that lasted so long."""
    found = Lives(RULE)
    for number, seconds in enumerate(lasted):
        found.ended(Life(str(number), seconds, "signal 9"))
    return found


@pytest.mark.parametrize(
    ("lasted", "why"),
    [
        ((), ""),
        ((1, 1), ""),
        ((5000, 10, 10), "3 ends within 20 s"),
        ((1, 100, 100), ""),
        ((90, 30, 80, 85), "4 in a row lasted less than 300 s"),
        ((90, 301, 80, 85), ""),
    ],
)
def test_the_rule(lasted: tuple[float, ...], why: str) -> None:
    """Many ends in a short time, or too many short lives in a row, however long the check between them is."""
    assert lives(*lasted).loop() == why


def test_one_end_counts_once() -> None:
    """The same life told twice (a message sent anew) changes nothing."""
    one = lives(1, 1)
    one.ended(Life("1", 1, "signal 9"))
    assert one.loop() == ""


def test_stable_forgets() -> None:
    """After a stable life it begins anew."""
    one = lives(1, 1, 1)
    one.stable()
    assert one.loop() == ""


@given(st.lists(st.floats(0, 1e6), max_size=40))
def test_it_is_bounded_and_reads_back_what_it_wrote(lasted: list[float]) -> None:
    """At most KEPT are remembered, and the JSON gives the same ring."""
    one = lives(*lasted)
    assert len(one.ring) <= KEPT
    assert list(Lives(RULE, restored(one.plain())).ring) == list(one.ring)


@given(st.recursive(st.none() | st.floats() | st.text(), lambda part: st.lists(part) | st.dictionaries(st.text(), part)))
def test_any_json_is_taken_or_refused(value: object) -> None:
    """One error of ours at most."""
    with contextlib.suppress(StoreError):
        restored(value)  # type: ignore[arg-type]
