"""`power_cycle`: the last rung: the microcontroller cuts and restores the supply, with the reason written durably before."""

from __future__ import annotations

from agent.actions._intent import with_last_words
from agent.actions._tools import Tools
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Leave the last words, then have the MCU do it. Raises GatewardenError if there is none, or if it will not."""
    return with_last_words(decision, tools, tools.recovery.mcu.power_cycle), {}
