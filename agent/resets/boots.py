"""The ring of boots: why each began and how long it is known to have lasted, for counts and proof. Pure.

It is written once per boot, to `<state_dir>/boots.json`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import cast

from agent.model import Data, Json
from agent.narrow import number, part, rows
from agent.resets.causes import CAUSES, CONFIDENCES, Verdict, Words, among

BOOTS = 32  # that the ring remembers
SEEN = 64  # pstore records that were told already


@dataclass(frozen=True, slots=True)
class Boot:
    """One boot: why it began, and how long it is known to have lasted."""

    boot_id: str
    t_wall: float
    version: str
    verdict: Verdict
    uptime_s: float = 0.0


@dataclass(frozen=True, slots=True)
class BootRing:
    """The ring, oldest first, and the pstore records that were told already."""

    ring: tuple[Boot, ...] = ()
    seen: tuple[str, ...] = ()

    def of(self, boot_id: str) -> Boot | None:
        """Give the entry of a boot."""
        return next((boot for boot in self.ring if boot.boot_id == boot_id), None)

    def begun(self, boot: Boot, before: Words | None, seen: tuple[str, ...]) -> BootRing:
        """Add `boot`; the one before it lasted at least as long as its last words say."""
        ring = [_lasted(one, before) for one in self.ring if one.boot_id != boot.boot_id]
        return BootRing((*ring, boot)[-BOOTS:], (*self.seen, *(one for one in seen if one not in self.seen))[-SEEN:])

    def counted(self) -> dict[str, int]:
        """Give how many boots of the ring each cause began."""
        causes = [boot.verdict.cause for boot in self.ring]
        return {cause: causes.count(cause) for cause in CAUSES if cause in causes}

    def telling(self) -> frozenset[str]:
        """Give the watchdogs that once said of a reset that it was theirs: many drivers can, and do not declare it."""
        said = [one for boot in self.ring for one in boot.verdict.evidence]
        return frozenset(one.removeprefix("bootstatus:") for one in said if one.startswith("bootstatus:"))

    def proven(self) -> bool:
        """Whether a watchdog is on record as the surely known cause of a reset: before that it is only believed to work."""
        return any(boot.verdict.cause == "watchdog" and boot.verdict.confidence == "high" for boot in self.ring)

    def plain(self) -> Data:
        """Give it as JSON."""
        return {"boots": [cast("Json", _listed(asdict(boot))) for boot in self.ring], "seen": list(self.seen)}


def _lasted(boot: Boot, words: Words | None) -> Boot:
    if words is None or words.boot_id != boot.boot_id:
        return boot
    return replace(boot, uptime_s=max(boot.uptime_s, words.uptime_s))


def _listed(boot: dict[str, object]) -> dict[str, object]:
    verdict = cast("dict[str, object]", boot["verdict"])
    return boot | {"verdict": verdict | {"evidence": list(cast("tuple[str, ...]", verdict["evidence"]))}}


def read(value: Json) -> BootRing:
    """Read back what `BootRing.plain` gave; what is not of that form is left out."""
    if not isinstance(value, dict):
        return BootRing()
    seen = value.get("seen")
    return BootRing(
        tuple(_boot(row) for row in rows(value, "boots"))[-BOOTS:],
        tuple(str(one) for one in seen if isinstance(one, str))[-SEEN:] if isinstance(seen, list) else (),
    )


def _boot(row: Data) -> Boot:
    said = part(row, "verdict")
    listed = said.get("evidence")
    evidence = tuple(str(one) for one in listed) if isinstance(listed, list) else ()
    cause, confidence = among(CAUSES, said.get("cause"), "unknown"), among(CONFIDENCES, said.get("confidence"), "none")
    verdict = Verdict(cause, confidence, str(said.get("reason") or ""), evidence)
    uptime = max(0.0, number(row.get("uptime_s")))
    return Boot(str(row.get("boot_id")), number(row.get("t_wall")), str(row.get("version")), verdict, uptime)
