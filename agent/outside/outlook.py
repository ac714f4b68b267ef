"""Everything that agentd sees from outside, put together: services, health checks, devices, and the machine's pressure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from agent.config import Config, Workload
from agent.linux import handed
from agent.linux.brokerclient import BrokerClient
from agent.linux.loop import EpollLoop
from agent.linux.pressure import PressureTriggers
from agent.linux.servicestate import ServiceState
from agent.model import Sighting
from agent.outside.checking import Checking
from agent.outside.devices import Devices
from agent.outside.services import Services
from agent.ports import Clock


class Rows(Protocol):
    """Who keeps the rows of the workloads (`agent.supervision.supervising.Supervising`)."""

    def told(self, found: Sequence[Sighting]) -> None:
        """Take events."""
        ...

    def shown(self, sighting: Sighting) -> None:
        """Take a sample."""
        ...

    def unknown(self, name: str, why: str) -> None:
        """Hear that nobody tells how a workload is."""
        ...


@dataclass(slots=True)
class Outlook:
    """One per agentd, on the loop's thread."""

    loop: EpollLoop
    services: Services
    checking: Checking
    devices: Devices
    workloads: bool
    """Whether there are any, which a starved machine could hold up."""
    triggers: PressureTriggers | None = None

    def start(self, starved: Callable[[], None]) -> None:
        """Look from now on; `starved` is called when the machine begins to starve, at most each 2 s."""
        self.services.start()
        self.checking.start()
        self.devices.start()
        if self.workloads:
            self.triggers = PressureTriggers(self.loop, starved)

    def look(self) -> None:
        """Look at what nobody tells of by itself."""
        self.services.tick()
        self.devices.look()

    def close(self) -> None:
        """Look no more."""
        if self.triggers is not None:
            self.triggers.close()
        self.devices.close()
        self.checking.close()
        self.services.close()


def outlook(
    settings: Config,
    loop: EpollLoop,
    clock: Clock,
    rows: Rows,
    submit: Callable[[str, Callable[[], None]], bool],
    told: Callable[[Sighting], None],
    say: Callable[[str], None],
) -> Outlook:
    """Put it together; nothing is asked yet. `told` takes events that are not about a workload."""
    broker = BrokerClient(settings.paths.broker_socket)

    def ask(one: Workload) -> ServiceState:
        return handed.service_state(broker, one.unit, one.container)

    services = Services(settings.workload, loop, clock, ask, partial(submit, "services"), rows.told)
    services.unknown = rows.unknown
    checking = Checking(settings.workload, loop, clock, rows.shown, say)
    return Outlook(loop, services, checking, Devices(settings.device, loop, clock, told, say), bool(settings.workload))
