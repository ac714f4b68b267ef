"""What a hold, or safe mode, changes elsewhere (`recovering.Effects`): the watchdogs' gate, the MQTT status, the keeper."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from agent.errors import GatewardenError
from agent.model import Sighting
from agent.ports import Keeper
from agent.watchdogs.guarding import Guarding


@dataclass(frozen=True, slots=True)
class Consequences:
    """Belongs to the loop's thread; `submit(key, job)` runs a job where it may block."""

    keeper: Keeper
    commands: frozenset[str]
    """The workloads whose parent is the keeper."""
    guarding: Guarding
    mcu_held: Callable[[bool], None]
    """Tells the microcontroller whether this is maintenance."""
    presence: Callable[[str], None]
    """Tells the central service that the gateway is `online` or in `maintenance`."""
    submit: Callable[[str, Callable[[], None]], bool]
    told: Callable[[Sighting], None]
    say: Callable[[str], None]

    def held(self, everything: bool, names: Collection[str]) -> None:  # noqa: FBT001 - a state
        """Want nothing of what is on hold, and say so."""
        self.guarding.held(everything, names)
        self.mcu_held(everything)
        self.presence("maintenance" if everything else "online")

    def ordered(self, verb: str, name: str, reason: str) -> None:
        """Give the keeper an order; one that fails is said."""
        if name in self.commands:
            self.submit(f"of {name}", partial(self._order, verb, name, reason))

    def _order(self, verb: str, name: str, reason: str) -> None:
        try:
            done = self.keeper.order(verb, name, reason)
        except GatewardenError as error:
            self.say(f"{verb} {name}: {error}")
        else:
            if not done.ok:
                self.say(f"{verb} {name}: {done.detail}")
