"""Events and an outbox for the tests of telemetry."""

from __future__ import annotations

from pathlib import Path

from agent.model import Data, Event, plain
from agent.telemetry.bounds import Limits
from agent.telemetry.marks import Marks
from agent.telemetry.outbox import Outbox
from tests.doubles import NOW, HandClock

BOOT = "b" * 32
ROOMY = Limits(headroom_bytes=0)


def event(seq: int, kind: str = "timer.late", t_wall: float = NOW, **data: int | str) -> Data:
    """Give a plain event."""
    return plain(Event(BOOT, seq, seq * 1000, t_wall, "test", kind, "subject", "info", dict(data)))


def open_outbox(
    folder: Path, clock: HandClock | None = None, limits: Limits = ROOMY, boot_id: str = BOOT, *, deliver: bool = True
) -> Outbox:
    """Open an outbox in `folder`, with its marks in `folder/run`."""
    run = folder / "run"
    run.mkdir(exist_ok=True)
    return Outbox(folder, limits, clock or HandClock(), Marks(run, boot_id), boot_id=boot_id, deliver=deliver)
