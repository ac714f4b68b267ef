"""agentd at work: what a tick does when a part of it fails."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from agent.service import Service
from agent.status import Identity
from tests.doubles import HandClock


class Broken:
    """A part all of whose methods fail."""

    def __getattr__(self, name: str) -> Any:
        """Give such a method."""

        def fail() -> None:
            raise OSError(24, f"{name}: too many open files")

        return fail


class Watchdogs(Broken):
    """Counts its turns; the rest of it fails, too."""

    turns = 0

    def tick(self) -> None:
        """Count."""
        self.turns += 1


def test_a_part_that_fails_costs_no_feed(tmp_path: Path) -> None:
    """Pins that the watchdogs have their turn whatever fails before it, and that each fault is told by the name of its part."""
    faults: list[str] = []
    watchdogs, broken = Watchdogs(), cast("Any", Broken())
    one = Service(
        identity=Identity("site", "gw", "b" * 32, "A", "", 1),
        clock=HandClock(),
        pipeline=broken,
        probing=broken,
        overseeing=cast("Any", watchdogs),
        telemetry=broken,
        budget_pct=1.0,
        status_file=tmp_path / "status.json",
        facts=broken.facts,
        say=faults.append,
        fault=lambda name, _error: faults.append(name),
    )
    one.tick()
    one.tick()
    assert watchdogs.turns == 2
    assert faults == ["tick: own cost", "tick: workloads", "tick: detectors", "tick: status", "tick: health"] * 2
