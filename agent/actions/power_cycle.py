"""`power_cycle`: the last rung: the microcontroller cuts and restores the supply, with the reason written durably before."""

from __future__ import annotations

from agent.actions import _intent
from agent.actions._tools import Tools
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Leave the last words, then have the MCU do it. Raises GatewardenError if there is none, or if it will not."""
    kept = _intent.declare(decision, tools)
    return f"{tools.recovery.mcu.power_cycle(decision.reason[:500])}{kept}", {}
