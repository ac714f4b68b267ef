"""How much a misbehaving workload can make the keeper say."""

from __future__ import annotations

from agent.keeping.thrift import MOST, WINDOW_NS, Thrift


def test_a_few_pass_and_the_others_are_counted() -> None:
    """Pins the limit for each key, the count of what was kept back, and that it ends with the window."""
    thrift = Thrift()
    assert [thrift.allows("a", at) for at in range(MOST + 3)] == [True] * MOST + [False] * 3
    assert thrift.allows("b", 0)
    assert thrift.allows("a", WINDOW_NS)
    assert (thrift.kept_back("a"), thrift.kept_back("a"), thrift.kept_back("b")) == (3, 0, 0)


def test_keys_without_end_cost_no_memory_without_end() -> None:
    """Pins the bound on keys."""
    thrift = Thrift()
    for number in range(10_000):
        assert thrift.allows(str(number), 0)
        for _ in range(MOST):
            thrift.allows(str(number), 0)
    assert len(thrift._said) <= 4096
    assert len(thrift._kept_back) <= 4096
