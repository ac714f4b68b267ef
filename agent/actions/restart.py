"""`restart`: stop a workload in order and start it again, by whoever is its parent."""

from __future__ import annotations

from agent.actions import _orders
from agent.actions._tools import Tools, target
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Restart it. Raises GatewardenError."""
    return _orders.restart(target(decision, tools), tools.recovery, _orders.why(decision))
