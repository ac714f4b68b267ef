"""Workloads, recovery, watchdogs and the microcontroller as one part of agentd: started, ticked, shown and ended together."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from agent.linux.loop import EpollLoop
from agent.model import Data, Json
from agent.outside.outlook import Outlook
from agent.ports import Mcu
from agent.supervision.pace import Pace
from agent.supervision.recovering import Recovering
from agent.supervision.supervising import Supervising
from agent.watchdogs.feeding import Feeder
from agent.watchdogs.guarding import Guarding

HELLO_S = 5.0  # a microcontroller that has not answered by then does not help to judge the last reset


class Lease(Feeder, Mcu, Protocol):
    """The microcontroller (`agent.watchdogs.mculink.McuLink`, which is imported only where one is configured)."""

    going: Callable[[bool], None]
    """Hears that an operator has it cycle the power, or that this does not come after all."""

    @property
    def evidence(self) -> str:
        """What it knows of the last start."""
        ...

    def start(self) -> None:
        """Look for it."""
        ...

    def row(self) -> Data:
        """Give its part of `status.watchdogs`."""
        ...

    def answer(self, request: Data) -> Json:
        """Serve the control verb `mcu`."""
        ...

    def close(self, *, shutdown: bool = False) -> None:
        """Let go of it; with `shutdown` it is asked to wait as long as that takes."""
        ...


@dataclass(frozen=True, slots=True)
class Overseeing:
    """One per agentd, on the loop's thread."""

    loop: EpollLoop
    supervising: Supervising
    recovering: Recovering
    guarding: Guarding
    outlook: Outlook
    pace: Pace
    mcu: Lease | None = None

    def start(self) -> None:
        """Arm the watchdogs, remember, judge the last reset, and look at the workloads and devices."""
        self.guarding.arm()
        self.recovering.start(mcu=self.mcu is not None)
        if self.mcu is None:
            self._judge()
        else:
            self.guarding.watchdogs.add(self.mcu, self.mcu.row)
            self.mcu.going = self.guarding.power_goes
            self.mcu.start()
            self.loop.once(HELLO_S, self._judge, "last reset")
        self.supervising.beaten = self.guarding.beat
        self.supervising.resumed = self.recovering.agree
        self.supervising.start(self.guarding.ceiling_s())
        self.outlook.start(self.supervising.look)
        self.follow()

    def look(self) -> None:
        """Show the detectors who was held up, and let the ladder come to what is due."""
        self.supervising.look()
        self.outlook.look()
        self.recovering.tick()

    def tick(self) -> None:
        """Report what works to the watchdogs: agentd's own turn is through."""
        self.guarding.watchdogs.last_rung = self.recovering.last_rung
        self.guarding.tick(self.supervising.status(), safe=bool(self.recovering.ladder.safe))
        self.follow()

    def follow(self) -> None:
        """Take turns as often as the watchdogs of now want it, and bound the deadlines by them: they come and go."""
        self.pace.keep(self.guarding.watchdogs.tick_s, self.tick)
        self.supervising.below(self.guarding.ceiling_s())

    def status(self) -> Data:
        """Give `workloads`, `watchdogs`, `feeding` and `last_reset` of the status, and why this is safe mode, if it is."""
        safe: Data = {"safe_mode": self.recovering.ladder.safe} if self.recovering.ladder.safe else {}
        return {"workloads": list[Json](self.supervising.status().values()), **self.guarding.status(), **safe}

    def verbs(self) -> Mapping[str, Callable[[Data], Json]]:
        """Give this part of the control socket's table."""
        mcu = {} if self.mcu is None else {"mcu": self.mcu.answer}
        return {"hold": self.recovering.hold, "resume": self.recovering.resume, **mcu}

    def close(self) -> None:
        """Keep what was learned, and give the watchdogs back."""
        self.outlook.close()
        self.supervising.close()
        self.recovering.close()
        if self.mcu is not None:
            self.mcu.close(shutdown=self.guarding.going_down())
        self.guarding.close()

    def _judge(self) -> None:
        self.recovering.judged(self.guarding.judge("" if self.mcu is None else self.mcu.evidence))
