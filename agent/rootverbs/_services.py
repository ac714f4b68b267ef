"""Verbs about services that somebody else is the parent of, and about the machine: each runs as an errand, so none blocks.

How a service is is asked as one, too: systemd or docker may take seconds to tell, and a watchdog may be wanted meanwhile.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from agent.errors import BadRequest
from agent.linux import containers, reboot, units, usb
from agent.linux.brokerclient import REASON
from agent.linux.errands import Errands
from agent.linux.servicestate import ServiceState
from agent.model import Json
from agent.rootverbs import _allowed
from agent.rootverbs._base import Given

ERRANDS = Errands()


@dataclass(frozen=True, slots=True)
class Services:
    """Serves what `config` names. `told(fields)` journals how an errand ended."""

    config: Path
    told: Callable[[dict[str, Json]], None]

    def unit(self, action: str, name: str) -> Given:
        """Have systemd start, stop or restart a unit, or say how it is."""
        _allowed.require(name, _allowed.read(self.config).units, "unit", "unit = of a [[workload]]")
        if action == "state":
            return self._question(f"unit state {name}", lambda: units.read(name))
        return self._errand(f"unit {action} {name}", lambda: units.order(action, name))

    def container(self, action: str, name: str) -> Given:
        """Have docker or podman restart a container, or say how it is."""
        _allowed.require(name, _allowed.read(self.config).containers, "container", "container = of a [[workload]]")
        if action == "state":
            return self._question(f"container state {name}", lambda: containers.read(name))
        return self._errand(f"container {action} {name}", lambda: containers.restart(name))

    def usb_reset(self, port: str) -> Given:
        """Reset the device at a USB port, or switch the port if there is none."""
        _allowed.require(port, _allowed.read(self.config).ports, "USB port", "usb = of a [[device]]")
        return self._errand(f"usb reset {port}", lambda: usb.reset(port))

    def reboot(self, reason: str) -> Given:
        """Begin an orderly reboot."""
        return self._errand("reboot", lambda: reboot.begin(reason))

    def _question(self, name: str, ask: Callable[[], ServiceState]) -> Given:
        """Have it answered as JSON; the call is in the journal already, so only a failure is worth a second line."""

        def failed(fields: dict[str, Json]) -> None:
            if not fields["ok"]:
                self.told(fields)

        return Given(None, ERRANDS.start(name, lambda: json.dumps(asdict(ask())), failed))

    def _errand(self, name: str, job: Callable[[], str]) -> Given:
        return Given(None, ERRANDS.start(name, job, self.told))


def name_of(value: Json) -> str:
    """Check a text that may be a name; whether the configuration has it is asked when it is used."""
    if not isinstance(value, str) or not 1 <= len(value) <= 256 or not value.isprintable():
        raise BadRequest("name: want a text of 1 .. 256 characters")
    return value


def reason_of(value: Json) -> str:
    """Check the reason of a reboot."""
    if not isinstance(value, str) or not value.strip() or len(value) > REASON:
        raise BadRequest(f"reason: want a text of 1 .. {REASON} characters")
    return value
