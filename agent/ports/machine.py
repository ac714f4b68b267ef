"""Protocols of the outside world: time, store, loop, journal, and whoever can change something on the machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.model import Data, Json, Severity


class Clock(Protocol):
    """The time. Deadlines use `mono_ns` alone (a wall clock steps)."""

    def mono_ns(self) -> int:
        """CLOCK_MONOTONIC in ns, the clock of `bpf_ktime_get_ns`."""
        ...

    def wall(self) -> float:
        """Seconds since the epoch, UTC."""
        ...


class Store(Protocol):
    """The durable side of telemetry (`agent/telemetry/spool.py`)."""

    def next_seq(self) -> int:
        """Give the next event number of this boot."""
        ...

    def append(self, records: Sequence[Data], cursors: Mapping[str, int], done: Callable[[], None]) -> None:
        """Commit `records` and ring positions together within 20 ms; `done` runs on the main loop after the commit."""
        ...

    def metric(self, payload: Data) -> None:
        """Hand over one metrics sample; a lost one is no harm."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """What became of an order: `detail` says what was done, or why it was not; `ms` is what it took."""

    ok: bool
    detail: str
    ms: float


class Keeper(Protocol):
    """The process that is the parent of the `command=` workloads. Callable from any thread."""

    def order(self, verb: str, name: str, reason: str, profile: str | None = None) -> Done:
        """Have it abort, terminate, restart, stop, start, degrade (to `profile`) or restore workload `name`; waits for the end.

        Raises NotRunning without a keeper, or if it does not say in time what became of it.
        """
        ...


class Units(Protocol):
    """Services that somebody else is the parent of, by way of the broker, which knows those of its configuration."""

    def unit(self, verb: str, name: str) -> str:
        """Have systemd start, stop or restart a unit; give what it says. Raises NotRunning, Refused or BadRequest."""
        ...

    def container_restart(self, name: str) -> str:
        """Have a container restarted; give what docker or podman says. Raises as `unit` does."""
        ...


class Machine(Protocol):
    """The whole machine and its ports, by way of the broker."""

    def usb_reset(self, port: str) -> str:
        """Reset the USB device at the stable port path `port`. Raises NotRunning, Refused or BadRequest."""
        ...

    def reboot(self, reason: str) -> str:
        """Start an orderly reboot; gives at once what was begun. Raises as `usb_reset` does."""
        ...


class Mcu(Protocol):
    """The microcontroller that has the last word over the supply. Callable from any thread."""

    def power_cycle(self, reason: str) -> str:
        """Have it cut and restore the power; gives when it will. Raises NotRunning without an MCU, Refused if it will not."""
        ...


class Intents(Protocol):
    """Last words that survive a reset."""

    def declare(self, act: str, reason: str) -> None:
        """Write durably (fsync, rename) that `act` is about to happen, in bounded time. Raises StoreError; the act goes on."""
        ...

    def revoke(self, act: str) -> None:
        """Take it back: `act` did not happen."""
        ...


class Cancellable(Protocol):
    """A timer."""

    def cancel(self) -> None:
        """Never call again."""
        ...


class Loop(Protocol):
    """The one epoll of a process."""

    def on_readable(self, fd: int, callback: Callable[[], None], name: str) -> None:
        """Call `callback` whenever `fd` is readable, until `forget(fd)`."""
        ...

    def on_writable(self, fd: int, callback: Callable[[], None] | None) -> None:
        """Also call `callback` whenever the known `fd` takes bytes; None ends that."""
        ...

    def forget(self, fd: int) -> None:
        """Stop watching `fd` (it is not closed)."""
        ...

    def every(self, seconds: float, callback: Callable[[], None], name: str) -> Cancellable:
        """Call `callback` each `seconds` by a timerfd, until `cancel`; missed periods are not made up for."""
        ...

    def call_soon_threadsafe(self, callback: Callable[[], None]) -> None:
        """From any thread: run `callback` on the loop's own."""
        ...


class Journal(Protocol):
    """Where lines for people go (stderr, which systemd keeps)."""

    def line(self, severity: Severity, message: str, fields: Mapping[str, Json]) -> None:
        """Write one line; foreign text in it is made harmless. Raises OSError if nobody takes it."""
        ...


class Archive(Protocol):
    """A bounded folder of entries that appear whole or not at all."""

    def keep(self, name: str, files: Mapping[str, str]) -> str:
        """Add an entry of text files durably, the oldest ones making room; give its path. Raises StoreError."""
        ...


@dataclass(frozen=True, slots=True)
class WatchSpot:
    """Kernel data to watch: `length` (1, 2, 4, 8) bytes at `address`, a multiple of it."""

    address: int
    length: int


@dataclass(frozen=True, slots=True)
class Trapped:
    """What one window of watchpoints gave. The tuples have an item for each spot.

    `records` are struct collider_hit, of all spots. `seen` are the writes since arming; `missed` those that trapped without the
    program running, `lost` those that found no room. `cpus` were watched; empty if one came or went meanwhile.
    """

    records: tuple[bytes, ...]
    seen: tuple[int, ...]
    missed: tuple[int, ...]
    lost: tuple[int, ...]
    cpus: tuple[int, ...]
    begun_ns: int
    ended_ns: int


class Watchpoints(Protocol):
    """Traps writes to kernel memory, and reads it. Root only."""

    def window(self, spots: Sequence[WatchSpot], seconds: float, limit: int) -> Trapped:
        """Trap every write to at most four spots for `seconds`, at most `limit` of each. Raises a ProbeError."""
        ...

    def peek(self, address: int, length: int) -> bytes:
        """Give bytes of kernel memory, fewer where it ends."""
        ...

    def stack(self, number: int) -> tuple[int, ...]:
        """Give the frames of a recorded stack, innermost first."""
        ...
