"""The watchdogs and the cause of the last reset in agentd: what counts as a report of required work. Composition.

| the workload | what feeds |
|---|---|
| beats (sd_notify, a counter file, a probe) | each beat |
| starts, reloads, or its machine is starved, within its deadline | nothing is wanted of it until that deadline |
| its parent starts it again, or gave it up; the keeper does not answer | likewise, up to 15 min after its last report |
| is a unit or a container of which nobody tells (no broker, no systemctl) | each tick: not known is not dead |
| has no liveness in this phase ("not proven", or a probe that asks) | each tick while its process lives |
| fails its probe | nothing: no feed until it answers well |
| stopped without a hold, failed to beat in time | nothing: no feed until it works |
| not `required`, or on hold; anybody in safe mode, which stops them | nothing is wanted of it |
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Literal

from agent import __version__, narrow
from agent.config import Config
from agent.errors import StoreError
from agent.linux import handed, intent
from agent.linux.brokerclient import BrokerClient
from agent.linux.intent import DurableFile
from agent.model import Data, Sighting
from agent.ports import Clock, Loop
from agent.resets.causes import OPERATORS_CYCLE, Words
from agent.resets.lastreset import LastReset, witnesses
from agent.resets.lastwords import LastWords
from agent.watchdogs.owned import Watchdogs, here

Sign = Literal["reports", "excused", "silent"]
LIVES = frozenset({"starting", "running", "reloading", "stopping"})
RESTARTED = frozenset({"backoff", "failed", "unknown"})
_BROKER_S = 1.0
_PATIENCE_S = 20.0  # two ticks: renewed at each as long as the reason lasts
_NS = 1_000_000_000


def sign(row: Data) -> tuple[Sign, float]:
    """Give what a workload's row of `agentctl workloads` proves between two beats, and for how many seconds it is excused."""
    state, margin, causes = row.get("state"), narrow.number(row.get("margin_s")), row.get("causes")
    if isinstance(causes, list) and "health_check" in causes:
        return "silent", 0.0
    if state == "unknown" and row.get("parent") != "keeper":
        return "reports", 0.0
    if state in RESTARTED:
        return "excused", _PATIENCE_S
    if state not in LIVES:
        return "silent", 0.0
    if row.get("deadline_s") is None:
        return "reports", 0.0
    waits = row.get("phase") != "run" or narrow.number(row.get("starved_s")) > 0
    return ("excused", margin) if waits and margin > 0 else ("silent", 0.0)


class Guarding:
    """One per agentd; `later(job)` writes where it may block, `told` takes events."""

    def __init__(
        self,
        settings: Config,
        boot_id: str,
        clock: Clock,
        loop: Loop,
        later: Callable[[Callable[[], None]], bool],
        told: Callable[[Sighting], None],
        say: Callable[[str], None],
    ) -> None:
        """Read what the last boot left; open nothing yet."""
        self._clock = clock
        self._told, self._say, self._later = told, say, later
        folder, broker = settings.paths.state_dir, BrokerClient(settings.paths.broker_socket, _BROKER_S)
        self._folder = folder
        self.words = LastWords(DurableFile(folder / "intent.json"), clock, Words(boot_id, __version__), say, later)
        seen = witnesses(folder, partial(handed.dumps, broker))
        self.last_reset = LastReset(DurableFile(folder / "boots.json"), self.words, clock, seen, say)
        machine = here(partial(handed.watchdog_fd, broker), partial(handed.kmsg_fd, broker))
        self.watchdogs = Watchdogs(settings.watchdog, loop, clock, self.words, told, machine)
        self._required = frozenset(one.name for one in settings.workload if one.required)
        self._exempt: frozenset[str] = frozenset()
        self._safe = False

    def arm(self) -> None:
        """Open what is ours, and want a report of all that is required."""
        self.watchdogs.start()
        self.watchdogs.require(self._required)

    def judge(self, mcu: str) -> str:
        """Judge the last reset with what the microcontroller says of it, once per boot; give the cause."""
        found = self.last_reset.resolve(mcu)
        if found is not None:
            self._told(found)
        return self.last_reset.verdict.cause

    def power_goes(self, comes: bool) -> None:  # noqa: FBT001 - a state
        """Hear that an operator has the power cycled, or that it does not come after all: the last words tell of it."""

        def write() -> None:
            try:
                self.words.declare(OPERATORS_CYCLE, "agentctl mcu power-cycle")
            except StoreError as error:
                self._say(f"the power cycle of an operator may be taken for another reset: {error}")

        self._later(write if comes else partial(self.words.revoke, OPERATORS_CYCLE))

    def ceiling_s(self) -> float | None:
        """Give the longest deadline that makes sense: the shortest time-out less its pretimeout; None without a watchdog."""
        spans = [
            narrow.number(row.get("ttl_s")) - narrow.number(row.get("pretimeout_s"))
            for row in self.watchdogs.rows()
            if isinstance(row, dict) and row.get("owner") is not None and row.get("ttl_s")
        ]
        return min((span for span in spans if span > 0), default=None)

    def beat(self, name: str, at_ns: int) -> None:
        """Take in a beat of a workload."""
        self.watchdogs.report(name, at_ns)

    def held(self, everything: bool, names: Collection[str]) -> None:  # noqa: FBT001 - a state
        """Hear what is on hold: of that nothing is wanted."""
        self._exempt = frozenset(names)
        self.watchdogs.hold(everything)
        self._require()

    def tick(self, rows: Mapping[str, Data], *, safe: bool = False) -> None:
        """Look at all that do not report by themselves, then at agentd's own turn; in `safe` mode that is enough."""
        now = self._clock.mono_ns()
        if safe != self._safe:
            self._safe = safe
            self._require()
        for name in self._required - self._exempt:
            how, seconds = sign(rows.get(name, {}))
            if how == "reports":
                self.watchdogs.report(name, now)
            elif how == "excused":
                self.watchdogs.excuse(name, now + round(seconds * _NS))
        self.watchdogs.tick()

    def _require(self) -> None:
        """Want reports of what is to work; who is wanted anew has all its time from now on."""
        self.watchdogs.require(() if self._safe else self._required - self._exempt)

    def status(self) -> Data:
        """Give the parts `watchdogs`, `feeding` and `last_reset` of the status."""
        return {
            "watchdogs": self.watchdogs.rows(),
            "feeding": self.watchdogs.protection(),
            "last_reset": self.last_reset.row(),
        }

    def going_down(self) -> bool:
        """Tell whether the machine is going down in good order."""
        return intent.planned(self._folder) == self.words.now.boot_id

    def close(self) -> None:
        """Give the watchdogs back, and leave the last words; they count on if the machine is going down in good order."""
        self.watchdogs.close(shutdown=self.going_down())
