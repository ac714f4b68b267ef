"""probe_budget: our own BPF programs take more CPU than `[budget] cpu_pct`. Names the dearest probe, to be switched off."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from agent.detectors._cases import EVIDENCE, number
from agent.model import Data, Event, Finding, State

NAME = "probe_budget"
KINDS = frozenset({"agent.cost"})

# One sample over the budget is a busy moment. After three in a row the dearest probe is named (degraded); if it is still the
# dearest after three more, switching it off has failed (critical). Three in a row within the budget end all findings.
SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.probe_budget]`: the budget itself is `[budget] cpu_pct`."""


class ProbeBudget:
    """`ports.Detector`."""

    name = NAME

    def __init__(self) -> None:
        """Start without an opinion."""
        self._over: deque[int] = deque(maxlen=EVIDENCE)
        self._within = 0
        self._open: dict[str, State] = {}

    def see(self, event: Event) -> Iterable[Finding]:
        """Take one cost sample in; a total that is not known says nothing."""
        if event.kind not in KINDS or not isinstance(event.data.get("cpu_pct"), int | float):
            return ()
        if number(event.data, "cpu_pct") <= number(event.data, "budget_pct"):
            self._over.clear()
            self._within += 1
            return self._ended(event) if self._within >= SAMPLES else ()
        self._within = 0
        self._over.append(event.seq)
        return self._raised(event) if len(self._over) >= SAMPLES else ()

    def tick(self, now_ns: int) -> Iterable[Finding]:  # noqa: ARG002 - counts samples, not time
        """Do nothing: only samples end a finding."""
        return ()

    def _raised(self, event: Event) -> Iterable[Finding]:
        costs = _costs(event.data)
        if not costs:
            return ()
        probe, cost = max(costs.items(), key=lambda item: item[1])
        evidence = tuple(seq for seq in self._over if seq)  # a sample that was not recorded has the number 0
        self._over.clear()
        known = self._open.get(probe)
        if known == "critical":
            return ()
        state: State = "critical" if known else "degraded"
        self._open[probe] = state
        total, budget = number(event.data, "cpu_pct"), number(event.data, "budget_pct")
        summary = f"probes take {total:.2f} % of the CPU time, budget {budget:g} %; {probe} is the dearest with {cost:.2f} %"
        data: Data = {"probe": probe, "probe_cpu_pct": cost, "cpu_pct": total, "budget_pct": budget}
        return (Finding(event.t_mono_ns, NAME, probe, state, summary, evidence, data),)

    def _ended(self, event: Event) -> Iterable[Finding]:
        ended = list(self._open)
        self._open.clear()
        summary = f"probes take {number(event.data, 'cpu_pct'):.2f} % of the CPU time, within the budget"
        return [Finding(event.t_mono_ns, NAME, probe, "ok", summary, (), {"probe": probe}) for probe in ended]


def _costs(data: Data) -> dict[str, float]:
    """Give the probes whose cost is known and not zero."""
    probes = data.get("probes")
    rows = probes.items() if isinstance(probes, dict) else ()
    return {name: cost for name, cost in rows if isinstance(cost, int | float) and cost > 0}


def make(options: Options) -> ProbeBudget:  # noqa: ARG001 - every detector is made in the same way
    """Make the detector."""
    return ProbeBudget()
