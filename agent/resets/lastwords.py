"""The intent file as agentd keeps it: what this boot was about when it was last heard of, durable, within a budget of flash.

A feed epoch is a stretch in which phase and armed watchdogs stay the same: its beginning is written, and a sign of life every
ten minutes. That is 144 writes of some 12 KiB a day; phases that flap are held to `PER_HOUR`. What precedes an act always is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from threading import Lock
from typing import Protocol, cast

from agent.errors import StoreError
from agent.model import Data, Json
from agent.ports import Clock
from agent.resets import causes
from agent.resets.causes import Phase, Words

ALIVE_S = 600.0
ACT_S = 300.0  # an act that has not ended the boot by then has failed
PER_HOUR = 30
_HOUR_NS = 3600 * 10**9


class Durable(Protocol):
    """A small file that survives a power cut (`agent.linux.intent.DurableFile`)."""

    def read(self) -> Json:
        """Give what is there, None for nothing."""
        ...

    def write(self, value: Data) -> None:
        """Replace it durably. Raises StoreError."""
        ...


def at_once(job: Callable[[], None]) -> bool:
    """Run `job` here and now."""
    job()
    return True


@dataclass(slots=True)
class LastWords:
    """`ports.Intents`, for the loop and whichever thread acts. `later` runs a write where it may block.

    `say` hears once that the disk takes none.
    """

    file: Durable
    clock: Clock
    now: Words
    say: Callable[[str], None]
    later: Callable[[Callable[[], None]], bool] = at_once
    _written_ns: int | None = None
    _spent: deque[int] = field(default_factory=lambda: deque(maxlen=PER_HOUR))
    _failed: bool = False
    _changing: Lock = field(default_factory=Lock)
    """Held for no longer than it takes to replace `now`."""
    _writing: Lock = field(default_factory=Lock)

    def before(self) -> Words | None:
        """Give the words of another boot, None if there are none."""
        found = causes.words(self.file.read())
        return None if found is None or found.boot_id == self.now.boot_id else found

    def phase(self, phase: Phase, reason: str = "") -> None:
        """Begin another phase; written soon, unless this hour's writes are spent."""
        with self._changing:
            if self.now.phase == "act" and self._age_s() < ACT_S:
                return
            if (phase, reason) == (self.now.phase, self.now.reason):
                return
            self.now = replace(self.now, phase=phase, reason=reason[:500], act="")
        self._soon()

    def armed(self, devices: Mapping[str, bool]) -> None:
        """Say which devices are fed, and whether each reports a reset of its own."""
        with self._changing:
            if dict(devices) == self.now.armed:
                return
            self.now = replace(self.now, armed=dict(devices))
        self._soon()

    def alive(self) -> None:
        """Give a sign of life, if the last one is old."""
        if self._age_s() >= ALIVE_S:
            self.later(self._quietly)

    def declare(self, act: str, reason: str) -> None:
        """Write that `act` comes now. Raises StoreError."""
        with self._changing:
            self.now = replace(self.now, phase="act", act=act, reason=reason[:500])
            self._written_ns = self.clock.mono_ns()  # from here on nothing but its failure replaces it
        self._write()

    def revoke(self, act: str) -> None:
        """Take back that `act` comes: it failed. Written soon."""
        with self._changing:
            if (self.now.phase, self.now.act) != ("act", act):
                return
            self.now = replace(self.now, phase="run", act="", reason=f"{act} failed")
        self._soon()

    def end(self) -> None:
        """Write that agentd ends in good order, unless it is in the midst of an act."""
        with self._changing:
            if self.now.phase != "act":
                self.now = replace(self.now, phase="stopped", reason="agentd was stopped")
        self._quietly()

    def _age_s(self) -> float:
        """Give how long nothing has been written."""
        return float("inf") if self._written_ns is None else (self.clock.mono_ns() - self._written_ns) / 1e9

    def _soon(self) -> None:
        now = self.clock.mono_ns()
        if len(self._spent) < PER_HOUR or now - self._spent[0] >= _HOUR_NS:
            self._spent.append(now)
            self.later(self._quietly)

    def _quietly(self) -> None:
        try:
            self._write()
        except StoreError as error:
            if not self._failed:
                self.say(f"the cause of the next reset may stay unknown: {error}")
            self._failed = True
        else:
            self._failed = False

    def _write(self) -> None:
        with self._writing:
            with self._changing:
                self._written_ns = self.clock.mono_ns()
                words = self.now = replace(self.now, uptime_s=round(self._written_ns / 1e9, 1))
            self.file.write(cast("Data", asdict(words)))
