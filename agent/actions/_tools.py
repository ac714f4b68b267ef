"""What an action may use, and the guard around each: bounded, and an Outcome whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from agent.errors import BadRequest
from agent.model import Data, Decision, Finding, Json, Outcome
from agent.ports import Archive, Clock, Intents, Journal, Keeper, Machine, Mcu, Units


@dataclass(frozen=True, slots=True)
class Target:
    """A workload as the actions see it: who its parent is, and who needs it."""

    name: str
    parent: Literal["keeper", "unit", "container"]
    by: str
    """What its parent calls it: the workload's own name, the unit's or the container's."""
    dependants: tuple[str, ...] = ()
    """Workloads that come after it, each behind those that it needs itself."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """The ports of the rungs that change more than the agent itself."""

    keeper: Keeper
    units: Units
    machine: Machine
    mcu: Mcu
    intents: Intents
    workloads: Mapping[str, Target] = field(default_factory=dict)
    threads: Callable[[str], Json] = lambda _name: None
    """Reads where the threads of a workload stand; bounded in time."""


@dataclass(frozen=True, slots=True)
class Tools:
    """The ports of all actions.

    `collect` holds readers of evidence by name, each bounded in time: one that gives text, or a list of lines, is kept as such.
    `switch_off` clears a probe's enabled flag and raises GatewardenError if it cannot.
    """

    clock: Clock
    journal: Journal
    archive: Archive
    collect: Mapping[str, Callable[[Finding], Json]]
    switch_off: Callable[[str], None]
    recovery: Recovery


Run = Callable[[Decision, Tools], tuple[str, Data]]
"""One action: does it and gives `(detail, data)` of its Outcome; raises what went wrong."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """`ports.Action` over one `Run`: it never raises. `data.ms` is what it took."""

    run: Run
    tools: Tools

    def __call__(self, decision: Decision) -> Outcome:
        """Run it; a failure is an Outcome that is not `ok`, with the reason as its detail."""
        begun = self.tools.clock.mono_ns()
        data: Data = {}
        try:
            detail, data = self.run(decision, self.tools)
            ok = True
        except Exception as error:  # noqa: BLE001 - the contract of actions: failures are Outcomes
            ok, detail = False, f"{decision.action}: {error}"
        now = self.tools.clock.mono_ns()
        data = {**data, "ms": round((now - begun) / 1e6, 3)}
        return Outcome(now, decision.action, decision.finding.subject, ok=ok, detail=detail, data=data)


def target(decision: Decision, tools: Tools) -> Target:
    """Give the workload that the argument `workload` names, else the finding's subject. Raises BadRequest if there is none."""
    name = decision.arguments.get("workload", decision.finding.subject)
    found = tools.recovery.workloads.get(str(name))
    if found is None:
        raise BadRequest(f"no workload is called {str(name)[:64]!r}")
    return found
