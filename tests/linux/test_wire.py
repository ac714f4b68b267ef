"""The protocol's two halves against each other, and against rubbish."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BadRequest, GatewardenError, Refused
from agent.linux import wire
from agent.model import Data, Json

JSON: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(verb=st.text(), arguments=st.dictionaries(st.text().filter(lambda key: key != "verb"), JSON))
def test_requests_come_back(verb: str, arguments: Data) -> None:
    """Pins that what one side encodes the other reads alike, on one line."""
    line = wire.encode({"verb": verb, **arguments})
    assert line.count(b"\n") == 1
    assert wire.request(line) == (verb, arguments)


@given(value=JSON)
def test_results_come_back(value: Json) -> None:
    """Pins the same for replies."""
    assert wire.result(wire.success(value)) == value


@given(text=st.text(), kind=st.sampled_from([BadRequest, Refused]))
def test_errors_come_back(text: str, kind: type[GatewardenError]) -> None:
    """Pins that an error keeps its class and text."""
    with pytest.raises(kind) as caught:
        wire.result(wire.failure(kind(text)))
    assert str(caught.value) == text


@given(line=st.binary() | st.text().map(str.encode) | JSON.map(lambda value: wire.success(value)[20:]))
def test_rubbish_is_one_error_of_ours(line: bytes) -> None:
    """Pins that any bytes are read, or are a BadRequest, in both directions."""
    for read in (wire.request, wire.result):
        try:
            read(line)
        except (BadRequest, Refused):
            continue


@pytest.mark.parametrize("line", [b"[" * 100_000, b'{"verb":' + b"9" * 10_000 + b"}", b'{"verb": 1}', b'"verb"', b""])
def test_what_a_json_reader_trips_over(line: bytes) -> None:
    """Pins deep nesting, endless integers and wrong types as BadRequest with a short text."""
    with pytest.raises(BadRequest) as caught:
        wire.request(line)
    assert len(str(caught.value)) < 250


def test_what_json_cannot_say_is_a_value_error() -> None:
    """Pins that NaN never reaches the wire: it is no JSON."""
    with pytest.raises(ValueError, match="JSON"):
        wire.success(math.nan)
