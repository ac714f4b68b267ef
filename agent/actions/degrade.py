"""`degrade`: have a workload go on with a lower profile, without a restart if it confirms in time."""

from __future__ import annotations

from agent.actions._orders import order, why
from agent.actions._tools import Tools, target
from agent.errors import BadRequest
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Have the keeper switch to the argument `profile`. Raises BadRequest without one, and GatewardenError."""
    profile = decision.arguments.get("profile")
    if not isinstance(profile, str):
        raise BadRequest("the decision names no profile: it needs the argument `profile`, a string")
    detail, data = order("degrade", target(decision, tools), tools.recovery, why(decision), profile)
    return detail, {**data, "profile": profile}
