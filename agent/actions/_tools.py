"""What an action may use, and the guard around each: bounded, and an Outcome whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from agent.model import Data, Decision, Finding, Json, Outcome
from agent.ports import Archive, Clock, Journal


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


Run = Callable[[Decision, Tools], tuple[str, Data]]
"""One action: does it and gives `(detail, data)` of its Outcome; raises what went wrong."""


@dataclass(frozen=True, slots=True)
class Guarded:
    """`ports.Action` over one `Run`: it never raises."""

    run: Run
    tools: Tools

    def __call__(self, decision: Decision) -> Outcome:
        """Run it; a failure is an Outcome that is not `ok`, with the reason as its detail."""
        data: Data = {}
        try:
            detail, data = self.run(decision, self.tools)
            ok = True
        except Exception as error:  # noqa: BLE001 - the contract of actions: failures are Outcomes
            ok, detail = False, f"{decision.action}: {error}"
        return Outcome(self.tools.clock.mono_ns(), decision.action, decision.finding.subject, ok=ok, detail=detail, data=data)
