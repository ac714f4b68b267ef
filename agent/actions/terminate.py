"""`terminate`: end a workload that does not answer by SIGABRT, so that it may leave a core or a stack; it starts anew.

A unit or a container is ended by its restart alone, the next rung.
"""

from __future__ import annotations

from agent.actions._orders import order, why
from agent.actions._tools import Tools, target
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Have the keeper abort it. Raises GatewardenError."""
    return order("abort", target(decision, tools), tools.recovery, why(decision))
