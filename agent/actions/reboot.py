"""`reboot`: an orderly reboot of the whole machine, with its reason written durably before."""

from __future__ import annotations

from agent.actions._intent import with_last_words
from agent.actions._tools import Tools
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Leave the last words, then have the broker reboot. Raises GatewardenError if it does not."""
    return with_last_words(decision, tools, tools.recovery.machine.reboot), {}
