"""Doubles at the ports that telemetry stands on."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from agent.model import Data, Event, plain
from agent.telemetry.bounds import Limits
from agent.telemetry.marks import Marks
from agent.telemetry.outbox import Outbox

BOOT = "b" * 32
NOW = 1_760_000_000.0
ROOMY = Limits(headroom_bytes=0)


class HandClock:
    """A `ports.Clock` that stands still until it is moved."""

    def __init__(self, wall: float = NOW) -> None:
        self.ns = 1_000_000_000
        self._wall = wall

    def mono_ns(self) -> int:
        """Monotonic time in ns."""
        return self.ns

    def wall(self) -> float:
        """Wall time in seconds."""
        return self._wall

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.ns += int(seconds * 1e9)
        self._wall += seconds


class DirectLoop:
    """The one method of `ports.Loop` that a thread may call: runs the callback at once, in that thread, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """Run it."""
        with self._lock:
            callback()


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
