"""What this agent may do to a machine. The set is CLOSED: nothing outside the table `ACTIONS` is ever run.

Adding one: a file with `run(decision, tools) -> (detail, data)`, a line here, a paragraph in docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from agent.actions import (
    capture,
    degrade,
    log,
    power_cycle,
    probe_off,
    reboot,
    restart,
    restart_dependants,
    restore,
    snapshot,
    terminate,
    usb_reset,
)
from agent.actions._tools import Guarded, Recovery, Target, Tools
from agent.ports import Action

__all__ = ["ACTIONS", "Recovery", "Target", "Tools", "bound"]

ACTIONS: Mapping[str, Callable[[Tools], Action]] = {
    "log": partial(Guarded, log.run),
    "snapshot": partial(Guarded, snapshot.run),
    "probe_off": partial(Guarded, probe_off.run),
    "capture": partial(Guarded, capture.run),
    "terminate": partial(Guarded, terminate.run),
    "restart": partial(Guarded, restart.run),
    "restart_dependants": partial(Guarded, restart_dependants.run),
    "degrade": partial(Guarded, degrade.run),
    "restore": partial(Guarded, restore.run),
    "usb_reset": partial(Guarded, usb_reset.run),
    "reboot": partial(Guarded, reboot.run),
    "power_cycle": partial(Guarded, power_cycle.run),
}


def bound(tools: Tools) -> Mapping[str, Action]:
    """Give every action, ready to run with `tools`."""
    return {name: factory(tools) for name, factory in ACTIONS.items()}
