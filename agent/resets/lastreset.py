"""The cause of the last reset, judged once per boot: evidence is read, `causes` judges, the ring of boots remembers.

No probe: a probe looks into the running kernel, this asks what an earlier one left behind, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from agent.errors import GatewardenError, StoreError
from agent.linux import intent, pstore, watchdogfacts
from agent.linux.pstore import Record
from agent.model import Data, Sighting
from agent.ports import Clock
from agent.resets import boots, causes
from agent.resets.boots import Boot, BootRing
from agent.resets.causes import Evidence, Verdict
from agent.resets.lastwords import Durable, LastWords


@dataclass(frozen=True, slots=True)
class Witnesses:
    """Where evidence is read; each gives nothing where there is none. `dumps` raises OSError or GatewardenError."""

    dumps: Callable[[], list[Record]]
    registers: Callable[[], dict[str, int]]
    planned: Callable[[], str]


def witnesses(state_dir: Path, dumps: Callable[[], list[Record]] = pstore.read) -> Witnesses:
    """Give those of this machine."""

    def registers() -> dict[str, int]:
        return {one.label: one.bootstatus for one in watchdogfacts.read() if one.bootstatus is not None}

    return Witnesses(dumps, registers, lambda: intent.planned(state_dir))


class LastReset:
    """`verdict` and `boots` are there at once if this boot was judged before, else after `resolve`."""

    def __init__(self, ring: Durable, words: LastWords, clock: Clock, seen: Witnesses, say: Callable[[str], None]) -> None:
        """Read the ring, and the words of the boot before while nobody has overwritten them yet."""
        self._ring, self._words, self._clock, self._witnesses, self._say = ring, words, clock, seen, say
        self.boots: BootRing = boots.read(ring.read())
        known = self.boots.of(words.now.boot_id)
        self._before = words.before()
        self._judged = known is not None
        self.verdict: Verdict = known.verdict if known else causes.UNKNOWN

    def resolve(self, mcu: str = "") -> Sighting | None:
        """Judge, once per boot: give the event to record, None if that was done. `mcu` is what the microcontroller says."""
        if self._judged:
            return None
        self._judged = True
        dumps = self._dumps()
        fresh = [one for one in dumps if one.key not in self.boots.seen]
        found = self._evidence(fresh, mcu)
        # Without a ring nothing is known of the boot before: what lies in pstore may be years old.
        self.verdict = causes.judge(found) if self.boots.ring or found.words else causes.UNKNOWN
        boot = Boot(self._words.now.boot_id, self._clock.wall(), self._words.now.version, self.verdict)
        self.boots = self.boots.begun(boot, self._before, tuple(one.key for one in dumps))
        try:
            self._ring.write(self.boots.plain())
        except StoreError as error:
            self._say(f"this boot is not remembered: {error}")
        self._words.alive()  # the words of the boot before have said what they had to
        return causes.sighting(self.verdict, self._before, self._clock.mono_ns())

    def _evidence(self, dumps: list[Record], mcu: str) -> Evidence:
        before = self._before.boot_id if self._before else self.boots.ring[-1].boot_id if self.boots.ring else ""
        planned = bool(before) and self._witnesses.planned() == before
        words, telling = self._before, self.boots.telling()
        if words is not None:
            words = replace(words, armed={name: tells or name in telling for name, tells in words.armed.items()})
        return Evidence(words, pstore.panic(dumps), planned, self._witnesses.registers(), mcu)

    def _dumps(self) -> list[Record]:
        try:
            return self._witnesses.dumps()
        except (OSError, GatewardenError) as error:
            self._say(f"pstore cannot be read, so a panic would stay unknown: {error}")
            return []

    def row(self) -> Data:
        """Give `status.last_reset`."""
        return {
            "cause": self.verdict.cause,
            "confidence": self.verdict.confidence,
            "reason": self.verdict.reason,
            "evidence": list(self.verdict.evidence),
            "counts": dict(self.boots.counted()),
            "proven": self.boots.proven(),
        }
