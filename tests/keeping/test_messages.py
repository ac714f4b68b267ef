"""The wire from agentd: every request, every wrong one, every line."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.keeping.effects import Order
from agent.keeping.history import KEPT, History
from agent.keeping.messages import LIMIT, VERBS, BudgetChange, Malformed, Subscribe, encode, read

ORDER = {"type": "order", "id": "7", "verb": "restart", "name": "a", "reason": "late"}
BUDGET = {"type": "budget", "name": "a", "burst": 3, "window_s": 60}


def test_good_requests() -> None:
    """Pins the three requests, and that degrade alone takes a profile."""
    assert read(encode({"type": "subscribe", "keeper": None, "since": 0})) == Subscribe(None, 0)
    assert read(encode({"type": "subscribe", "keeper": "k", "since": 9})) == Subscribe("k", 9)
    assert read(json.dumps(ORDER).encode()) == Order("7", "restart", "a", "late")
    assert read(json.dumps(ORDER | {"verb": "degrade", "profile": "low"}).encode()) == Order("7", "degrade", "a", "late", "low")
    assert read(json.dumps(BUDGET).encode()) == BudgetChange("a", 3, 60)


@pytest.mark.parametrize(
    ("line", "order", "says"),
    [
        (b"", None, "Expecting value"),
        (b"[]", None, "JSON object"),
        (b"{}", None, "type: want"),
        (b'{"type": ["order"]}', None, "type: want"),
        (b"[" * 60_000, None, ""),
        (b"x" * (LIMIT + 1), None, "more than"),
        (json.dumps(ORDER | {"verb": "kill"}).encode(), "7", "verb: want one of abort"),
        (json.dumps(ORDER | {"name": "../x"}).encode(), "7", "name: want"),
        (json.dumps(ORDER | {"id": 7}).encode(), None, "id: want"),
        (json.dumps(ORDER | {"id": "x" * 65}).encode(), None, "id: want"),
        (json.dumps(ORDER | {"reason": 1}).encode(), "7", "reason: want"),
        (json.dumps(ORDER | {"profile": "low"}).encode(), "7", "profile: degrade needs one"),
        (json.dumps(BUDGET | {"burst": True}).encode(), None, "burst: want"),
        (json.dumps(BUDGET | {"burst": 1.5}).encode(), None, "burst: want"),
        (json.dumps(BUDGET | {"window_s": float("nan")}).encode(), None, "window_s: want"),
        (b'{"type": "subscribe", "keeper": 1, "since": 0}', None, "keeper: want"),
        (b'{"type": "subscribe", "keeper": null, "since": -1}', None, "since: want"),
    ],
)
def test_bad_requests(line: bytes, order: str | None, says: str) -> None:
    """Pins that each is answered under its id, with what is wrong."""
    found = read(line)
    assert isinstance(found, Malformed)
    assert found.id == order
    assert says in found.why


_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_FIELDS = dict.fromkeys(("id", "name", "reason", "profile", "burst", "window_s", "keeper", "since"), _ANY)


@given(st.binary(max_size=500))
def test_any_line(line: bytes) -> None:
    """Pins that no bytes raise."""
    assert isinstance(read(line), Malformed | Subscribe | Order | BudgetChange)


@given(
    st.fixed_dictionaries(
        {"type": st.sampled_from(["order", "budget", "subscribe"])}, optional={"verb": st.sampled_from(VERBS) | _ANY, **_FIELDS}
    )
)
def test_any_fields(fields: dict[str, object]) -> None:
    """Pins that what is accepted has the types and lengths that it promises."""
    found = read(json.dumps(fields).encode())
    if isinstance(found, Order):
        assert found.verb in VERBS
        assert 0 < len(found.name) <= 32
        assert found.reason.isprintable()


def test_numbers_and_what_was_missed() -> None:
    """Pins the numbered messages: from 1, the last 512 kept, and how many a subscriber will never see."""
    history = History("k")
    assert history.add({"type": "beats"}) == {"type": "beats"}
    for _ in range(KEPT + 10):
        history.add({"type": "exit"})
    assert history.seq == KEPT + 10
    assert history.missed(Subscribe(None, 0)) == ([], 0)
    assert history.missed(Subscribe("k", history.seq)) == ([], 0)
    kept, lost = history.missed(Subscribe("k", 4))
    assert (kept[0]["seq"], kept[-1]["seq"], lost) == (11, KEPT + 10, 6)
    assert history.missed(Subscribe("other", 10**9))[1] == 10
    assert history.missed(Subscribe("k", 10**9)) == ([], 0)
