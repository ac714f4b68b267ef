"""`restore`: have a workload that was degraded go back to a better profile, or to its full one."""

from __future__ import annotations

from agent.actions._orders import order, why
from agent.actions._tools import Tools, target
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Have the keeper switch to the argument `profile`, the full one without it. Raises GatewardenError."""
    profile = decision.arguments.get("profile")
    wanted = profile if isinstance(profile, str) and profile else None
    detail, data = order("degrade" if wanted else "restore", target(decision, tools), tools.recovery, why(decision), wanted)
    return detail, {**data, "profile": wanted}
