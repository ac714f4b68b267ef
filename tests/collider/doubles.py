"""What the tests of the collider are made of: hits, a model of CPUs that write, and watchpoints that replay a script."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from agent.collider.hits import HIT, REGISTERS, Hit
from agent.collider.instruction import Operation
from agent.ports import Trapped, WatchSpot

SPOT = WatchSpot(0xFFFF_8880_0000_1000, 8)
PLAIN, ATOMIC = 0x1000, 0x2000  # addresses behind a writing instruction
ADD = Operation(PLAIN - 4, "add qword ptr [rax], 1", "modify", 8, step=1)
LOCKED_ADD = Operation(ATOMIC - 5, "lock add qword ptr [rax], 1", "atomic", 8, step=1)


def hit(value: int, count: int, *, t_ns: int = 0, ip: int = PLAIN, cpu: int = 0, after: int = 0, stack: int = -1) -> Hit:
    """Make a hit whose count is `count` before and (unless said) after its read."""
    return Hit(t_ns or count * 1000, ip, value, count, after or count, cpu, 1, stack, "swapper", (0,) * len(REGISTERS))


def record(given: Hit, slot: int = 0) -> bytes:
    """Give the bytes that the kernel would have written for a hit."""
    return HIT.pack(slot=slot, **{name: getattr(given, name) for name in Hit.__slots__})


def trapped(hits: Sequence[Hit], *, missed: int = 0, lost: int = 0, cpus: tuple[int, ...] = (0, 1), ms: int = 100) -> Trapped:
    """Make a window of one spot."""
    return Trapped(tuple(map(record, hits)), (len(hits),), (missed,), (lost,), cpus, 0, ms * 1_000_000)


@dataclass(slots=True)
class Model:
    """Memory, the kernel's count of hits, and CPUs whose steps a test interleaves as it likes.

    A CPU's write goes: (load,) store, then its trap: time, count, count before, value, count after. An `unseen` one has none.
    """

    value: int = 0
    count: int = 0
    clock: int = 0
    written: int = 0
    hits: list[Hit] = field(default_factory=list)

    def writer(self, cpu: int, ip: int, change: Callable[[int], int], *, atomic: bool, unseen: bool = False) -> Iterator[None]:
        """One write, a step at each `next`."""
        if atomic:
            self.value = change(self.value)
        else:
            loaded = self.value
            yield
            self.value = change(loaded)
        self.written += 1
        yield
        if unseen:
            return
        yield from self._trap(cpu, ip)

    def _trap(self, cpu: int, ip: int) -> Iterator[None]:
        self.clock += 10
        t_ns = self.clock
        yield
        self.count += 1
        yield
        before = self.count
        yield
        value = self.value
        yield
        self.hits.append(Hit(t_ns, ip, value, before, self.count, cpu, 1, -1, "swapper", (0,) * len(REGISTERS)))

    def ordered(self) -> list[Hit]:
        """Give the hits in order of time."""
        return sorted(self.hits, key=lambda item: item.t_ns)


def interleave(lanes: Sequence[Iterator[None]], choices: Sequence[int]) -> None:
    """Step the lanes in the order of `choices`, then each to its end."""
    left = list(lanes)
    for choice in choices:
        if left:
            lane = left[choice % len(left)]
            if next(lane, "over") == "over":
                left.remove(lane)
    for lane in left:
        for _ in lane:
            pass


@dataclass(slots=True)
class Scripted:
    """`ports.Watchpoints` and a clock in one: windows come from a function, time passes by itself."""

    script: Callable[[Sequence[WatchSpot], float, int], Trapped]
    value: Callable[[int], int] = lambda _now: 0
    now: int = 0
    windows: list[tuple[tuple[WatchSpot, ...], float, int]] = field(default_factory=list)
    rests: list[float] = field(default_factory=list)

    def window(self, spots: Sequence[WatchSpot], seconds: float, limit: int) -> Trapped:
        """Replay one window."""
        self.windows.append((tuple(spots), seconds, limit))
        given = self.script(spots, seconds, limit)
        self.now += given.ended_ns - given.begun_ns
        return given

    def peek(self, _address: int, length: int) -> bytes:
        """Give the value of now."""
        return self.value(self.now).to_bytes(8, "little")[:length]

    def stack(self, _number: int) -> tuple[int, ...]:
        """Give no stack."""
        return ()

    def mono_ns(self) -> int:
        """Give the time."""
        return self.now

    def wall(self) -> float:
        """Give no wall time."""
        return 0.0

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.rests.append(seconds)
        self.now += round(seconds * 1e9)
