"""The verbs of the broker: everything that root does for agentd. The set is CLOSED, reviewed as this one table.

Adding one: a function in a file here, a line in `table` with the check of each argument, a method in
`agent/linux/brokerclient.py`, a row in docs/security.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from agent.model import Json
from agent.rootverbs import _kernel
from agent.rootverbs._base import Given, Verb, one_of
from agent.rootverbs._services import ERRANDS, Services, name_of, reason_of

__all__ = ["Given", "Verb", "busy", "table"]


def table(config: Path, told: Callable[[dict[str, Json]], None] = lambda _fields: None) -> Mapping[str, Verb]:
    """Give all verbs by name; `config` names what they may touch, `told` hears how each errand ended, on its thread."""
    services = Services(config, told)
    unit = {"action": one_of("action", "start", "stop", "restart", "state"), "name": name_of}
    container = {"action": one_of("action", "restart", "state"), "name": name_of}
    measured = {"what": one_of("what", "prove", "hunt"), "target": _kernel.watched, "seconds": _kernel.measured_s}
    return {
        "kmsg.open": Verb({}, _kernel.kmsg_open),
        "ksym": Verb({"addresses": _kernel.kernel_addresses}, _kernel.ksym),
        "pstore.read": Verb({}, _kernel.pstore_read),
        "watchdog.open": Verb({"device": _kernel.watchdog_name}, _kernel.watchdog_open),
        "watchpoint": Verb(measured, _kernel.watchpoint),
        "unit": Verb(unit, services.unit),
        "container": Verb(container, services.container),
        "usb.reset": Verb({"port": name_of}, services.usb_reset),
        "reboot": Verb({"reason": reason_of}, services.reboot),
    }


def busy() -> bool:
    """Whether something that was asked for still goes on."""
    return _kernel.MEASUREMENT.busy or ERRANDS.busy
