"""Workloads, recovery and watchdogs as one part of agentd: started, ticked, shown and ended together, in the right order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from agent.guarding import Guarding
from agent.model import Data, Json
from agent.recovering import Recovering
from agent.supervising import Supervising


@dataclass(frozen=True, slots=True)
class Overseeing:
    """One per agentd, on the loop's thread."""

    supervising: Supervising
    recovering: Recovering
    guarding: Guarding

    def start(self, *, mcu: bool, supervised: Collection[str] = ()) -> None:
        """Judge the last reset, arm the watchdogs, remember, and only then look at the workloads."""
        cause = self.guarding.start()
        self.supervising.beaten = self.guarding.beat
        self.recovering.start(cause, mcu=mcu, supervised=supervised)
        self.supervising.start(self.guarding.ceiling_s())

    def look(self) -> None:
        """Show the detectors who was held up, and let the ladder come to what is due."""
        self.supervising.look()
        self.recovering.tick()

    def tick(self) -> None:
        """Report what works to the watchdogs: agentd's own turn is through."""
        self.guarding.watchdogs.last_rung = self.recovering.last_rung
        self.guarding.tick(self.supervising.status())

    def status(self) -> Data:
        """Give the parts `workloads`, `watchdogs` and `last_reset` of the status."""
        return {"workloads": list[Json](self.supervising.status().values()), **self.guarding.status()}

    def verbs(self) -> Mapping[str, Callable[[Data], Json]]:
        """Give this part of the control socket's table."""
        return {"hold": self.recovering.hold, "resume": self.recovering.resume}

    def close(self) -> None:
        """Keep what was learned, and give the watchdogs back."""
        self.supervising.close()
        self.recovering.close()
        self.guarding.close()
