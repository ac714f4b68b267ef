"""probe_budget on replayed cost samples."""

from __future__ import annotations

from dataclasses import replace

from agent.detectors import probe_budget
from agent.model import Event
from tests.detectors.replay import event, replay, states

DEAR = {"timers": 0.9, "run_queue": 0.4, "irq": None}


def cost(second: float, total: float | None, probes: dict[str, float | None] | None = None) -> Event:
    """One sample against a budget of 0.8 %."""
    return event(second, "agent.cost", "agent", cpu_pct=total, budget_pct=0.8, probes=probes if probes is not None else DEAR)


def make() -> probe_budget.ProbeBudget:
    """One detector."""
    return probe_budget.make(probe_budget.Options())


def test_the_dearest_probe_is_named_once_and_ends() -> None:
    """Three samples over the budget name the dearest; three within it end the finding."""
    samples = [cost(s, 1.3) for s in (10, 20, 30, 40)] + [
        cost(s, 0.4, {"timers": None, "run_queue": 0.4}) for s in (50, 60, 70, 80)
    ]
    found = replay(make(), samples)
    assert states(found) == [("timers", "degraded"), ("timers", "ok")]
    assert found[0].data["probe"] == "timers"
    assert found[0].evidence == (10_001, 20_001, 30_001)
    assert found[0].summary == "probes take 1.30 % of the CPU time, budget 0.8 %; timers is the dearest with 0.90 %"


def test_busy_moments_are_no_fault() -> None:
    """Two samples over the budget, then one within it, for ever."""
    assert replay(make(), [cost(s, 0.1 if s % 3 == 0 else 5) for s in range(300)]) == []


def test_the_next_dearest_follows() -> None:
    """After the first is off, three more samples over the budget name the second."""
    off = {"timers": 0.0, "run_queue": 0.9}
    found = replay(make(), [cost(s, 1.3) for s in range(3)] + [cost(s, 0.9, {**off}) for s in range(3, 6)])
    assert states(found) == [("timers", "degraded"), ("run_queue", "degraded")]


def test_a_probe_that_does_not_go_off_is_critical() -> None:
    """The same dearest probe three samples later: switching it off has failed; then there is nothing new to tell."""
    assert states(replay(make(), [cost(s, 1.3) for s in range(1000)])) == [("timers", "degraded"), ("timers", "critical")]


def test_samples_that_were_not_recorded_are_no_evidence() -> None:
    """The hub shows cost samples with the number 0; such a number names no event."""
    found = replay(make(), [replace(cost(s, 1.3), seq=0) for s in range(3)])
    assert [finding.evidence for finding in found] == [()]


def test_unknown_cost_is_no_opinion() -> None:
    """A total that is not known changes nothing; a total without a known probe names none."""
    assert replay(make(), [cost(s, None) for s in range(9)]) == []
    assert replay(make(), [cost(s, 2.0, {"irq": None}) for s in range(9)]) == []
