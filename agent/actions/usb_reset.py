"""`usb_reset`: reset one USB port, named by its stable path, whose device vanished or hangs."""

from __future__ import annotations

from agent.actions._tools import Tools
from agent.errors import BadRequest
from agent.model import Data, Decision


def run(decision: Decision, tools: Tools) -> tuple[str, Data]:
    """Have the broker reset the argument `port`. Raises BadRequest without one, and GatewardenError."""
    port = decision.arguments.get("port")
    if not isinstance(port, str):
        raise BadRequest("the decision names no port: it needs the argument `port`, a string")
    return tools.recovery.machine.usb_reset(port), {"port": port}
