"""What this agent may do to a machine. The set is CLOSED: nothing outside the table `ACTIONS` is ever run.

Adding one: a file with `run(decision, tools) -> (detail, data)`, a line here, a paragraph in docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from agent.actions import log, probe_off, snapshot
from agent.actions._tools import Guarded, Tools
from agent.ports import Action

__all__ = ["ACTIONS", "Tools", "bound"]

ACTIONS: Mapping[str, Callable[[Tools], Action]] = {
    "log": partial(Guarded, log.run),
    "snapshot": partial(Guarded, snapshot.run),
    "probe_off": partial(Guarded, probe_off.run),
}


def bound(tools: Tools) -> Mapping[str, Action]:
    """Give every action, ready to run with `tools`."""
    return {name: factory(tools) for name, factory in ACTIONS.items()}
