"""`probe_off`: clear one probe's enabled flag, so that its programs return first thing (the CPU budget's means)."""

from __future__ import annotations

from agent.actions._tools import Tools
from agent.errors import BadRequest
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Switch off the probe that the argument `probe` names. Raises BadRequest without one, and what `switch_off` raises."""
    probe = decision.arguments.get("probe")
    if not isinstance(probe, str):
        raise BadRequest("the decision names no probe: it needs the argument `probe`, a string")
    tools.switch_off(probe)
    return f"probe {probe} is off until the agent starts again or is told otherwise", {"probe": probe}
