"""Doubles of the ports (`agent/ports/`), in memory; `tests/test_doubles.py` holds them against the real adapters.

Maps have theirs in `tests/probes/doubles.py`, next to what else a decoder's test needs.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent.model import Data, Json, Severity
from agent.ports import Done

NOW = 1_760_000_000.0  # seconds since the epoch


@dataclass
class HandClock:
    """`Clock`: stands still until it is moved, or passes `step_ns` with each look."""

    wall_s: float = NOW
    ns: int = 1_000_000_000
    step_ns: int = 0

    def mono_ns(self) -> int:
        """Monotonic time in ns."""
        self.ns += self.step_ns
        return self.ns

    def wall(self) -> float:
        """Wall time in seconds."""
        return self.wall_s

    def pass_s(self, seconds: float) -> None:
        """Let time pass."""
        self.ns += int(seconds * 1e9)
        self.wall_s += seconds


class DirectLoop:
    """The one method of `Loop` that another thread may call: runs the callback at once, in that thread, one at a time."""

    def __init__(self) -> None:
        self._lock = threading.RLock()

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """Run it."""
        with self._lock:
            callback()


@dataclass
class MemoryStore:
    """`Store`: commits at once, and remembers the batches in order."""

    batches: list[tuple[list[Data], dict[str, int]]] = field(default_factory=list)
    metrics: list[Data] = field(default_factory=list)
    seq: int = 0

    def next_seq(self) -> int:
        """Count."""
        self.seq += 1
        return self.seq

    def append(self, records: Sequence[Data], cursors: Mapping[str, int], done: Callable[[], None]) -> None:
        """Keep the batch and report it durable."""
        self.batches.append((list(records), dict(cursors)))
        done()

    def metric(self, payload: Data) -> None:
        """Keep it."""
        self.metrics.append(payload)


@dataclass
class MemoryJournal:
    """`Journal`: keeps its lines, or takes none (`error`)."""

    error: OSError | None = None
    lines: list[tuple[Severity, str, Mapping[str, Json]]] = field(default_factory=list)

    def line(self, severity: Severity, message: str, fields: Mapping[str, Json]) -> None:
        """Keep it."""
        if self.error is not None:
            raise self.error
        self.lines.append((severity, message, fields))


@dataclass
class MemoryArchive:
    """`Archive` without bounds."""

    kept: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def keep(self, name: str, files: Mapping[str, str]) -> str:
        """Keep it."""
        path, count = f"/snapshots/{name}", 1
        while path in self.kept:
            count += 1
            path = f"/snapshots/{name}.{count}"
        self.kept[path] = dict(files)
        return path


@dataclass
class MemoryKeeper:
    """`Keeper`: does every order at once, or none (`error`, `refusal`), and remembers them."""

    error: Exception | None = None
    refusal: str = ""
    orders: list[tuple[str, str, str | None]] = field(default_factory=list)

    def order(self, verb: str, name: str, reason: str, profile: str | None = None) -> Done:  # noqa: ARG002 - of the port
        """Keep it."""
        if self.error is not None:
            raise self.error
        self.orders.append((verb, name, profile))
        return Done(not self.refusal, self.refusal or f"{verb} of {name} done", 1.5)


@dataclass
class MemoryMachine:
    """`Units`, `Machine`, `Mcu` and `Intents`: remembers what was asked, in order; `error` fails all of it."""

    error: Exception | None = None
    asked: list[tuple[str, ...]] = field(default_factory=list)

    def _ask(self, *words: str) -> str:
        if self.error is not None:
            raise self.error
        self.asked.append(words)
        return " ".join(words)

    def unit(self, verb: str, name: str) -> str:
        """Keep it."""
        return self._ask("unit", verb, name)

    def container_restart(self, name: str) -> str:
        """Keep it."""
        return self._ask("container", name)

    def usb_reset(self, port: str) -> str:
        """Keep it."""
        return self._ask("usb", port)

    def reboot(self, reason: str) -> str:
        """Keep it."""
        return self._ask("reboot", reason)

    def power_cycle(self, reason: str) -> str:
        """Keep it."""
        return self._ask("power cycle", reason)

    def declare(self, act: str, reason: str) -> None:
        """Keep it."""
        self._ask("intent", act, reason)

    def revoke(self, act: str) -> None:
        """Keep it, also when all else fails."""
        self.asked.append(("revoked", act))
