"""Last words around an act from which this agent does not return."""

from __future__ import annotations

from collections.abc import Callable

from agent.actions._tools import Tools
from agent.errors import GatewardenError, StoreError
from agent.model import Decision


def with_last_words(decision: Decision, tools: Tools, act: Callable[[str], str]) -> str:
    """Write the intent, then `act(reason)`; give what it says. Raises GatewardenError if the act fails, its intent revoked.

    A disk that takes no words does not stop the act, and is told behind the detail.
    """
    reason, lost = decision.reason[:500], ""
    try:
        tools.recovery.intents.declare(decision.action, reason)
    except StoreError as error:
        lost = f" (its reason could not be kept: {error})"
    try:
        return act(reason) + lost
    except GatewardenError:
        tools.recovery.intents.revoke(decision.action)
        raise
