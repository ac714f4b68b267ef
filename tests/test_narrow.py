"""Narrowing of foreign JSON."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent import narrow
from agent.model import STATES, Data

JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.just(10**400) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
    max_leaves=8,
)


@given(value=JSON)
def test_whatever_comes_has_the_type_that_was_asked_for(value: Any) -> None:
    """Pins that no JSON makes a narrowing raise, and that each gives its own type."""
    holder: Data = {"a": value}
    assert math.isfinite(narrow.number(value))
    assert isinstance(narrow.count(value), int)
    assert narrow.state(value) in STATES
    assert all(isinstance(row, dict) for row in (*narrow.rows(holder, "a"), *narrow.objects(value).values()))
    assert isinstance(narrow.part(holder, "a"), dict)
    assert (narrow.rows(holder, "z"), narrow.part(holder, "z")) == ([], {})


def test_what_fits_is_given_as_it_is() -> None:
    """Pins the other half: good values pass."""
    assert (narrow.number(1.5), narrow.count(3), narrow.state("critical")) == (1.5, 3, "critical")
    assert narrow.rows({"a": [{"b": 1}, 2]}, "a") == [{"b": 1}]
    assert narrow.objects({"a": {"b": 1}, "c": 2}) == {"a": {"b": 1}}
    assert narrow.part({"a": {"b": 1}}, "a") == {"b": 1}
