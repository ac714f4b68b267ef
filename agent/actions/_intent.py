"""Last words before an act from which this agent does not return."""

from __future__ import annotations

from agent.actions._tools import Tools
from agent.errors import StoreError
from agent.model import Decision


def declare(decision: Decision, tools: Tools) -> str:
    """Write the intent; a disk that takes none does not stop the act, and is told: the text goes behind the detail."""
    try:
        tools.recovery.intents.declare(decision.action, decision.reason[:500])
    except StoreError as error:
        return f" (its reason could not be kept: {error})"
    return ""
