"""`restart_dependants`: restart a workload, then all that come after it, in their order."""

from __future__ import annotations

from agent.actions import _orders
from agent.actions._tools import Target, Tools, target
from agent.errors import GatewardenError, Refused
from agent.model import Data, Decision, Json


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Restart them all; one that fails costs the others nothing. Raises Refused naming those that failed."""
    first = target(decision, tools)
    done: list[Json] = []
    failed: list[str] = []
    for one in (first, *(tools.recovery.workloads[name] for name in first.dependants)):
        if said := _refusal(one, tools, _orders.why(decision)):
            failed.append(f"{one.name}: {said}")
        else:
            done.append(one.name)
    if failed:
        raise Refused(f"not restarted: {'; '.join(failed)}")
    return f"restarted {', '.join(map(str, done))}", {"restarted": done}


def _refusal(one: Target, tools: Tools, reason: str) -> str:
    try:
        _orders.restart(one, tools.recovery, reason)
    except GatewardenError as error:
        return str(error)
    return ""
