"""One place under investigation: its windows, its writers, and what they add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from agent.collider import conservation, hits
from agent.collider.conservation import Balance
from agent.collider.hits import Hit
from agent.collider.instruction import Operation
from agent.collider.target import Watched
from agent.collider.undone import undone
from agent.ports import Trapped, WatchSpot

Decode = Callable[[int], Operation]
OVERLAP_NS = 20_000
BORNE_OUT = 4  # pairs of values at least; half of them have to agree, as in a race some do not
STACKS = 16  # that are kept of one writer


@dataclass(slots=True)
class Writer:
    """One writing instruction, and where it was seen at work."""

    ip: int
    operation: Operation
    writes: int = 0
    cpus: set[int] = field(default_factory=set)
    stacks: set[int] = field(default_factory=set)

    def saw(self, hit: Hit) -> None:
        """Count one write."""
        self.writes += 1
        self.cpus.add(hit.cpu)
        if hit.stack >= 0 and len(self.stacks) < STACKS:
            self.stacks.add(hit.stack)


@dataclass(frozen=True, slots=True)
class Window:
    """What one window gave. `why` says why it proves nothing; empty if its writes were weighed."""

    seconds: float
    writes: int
    balance: Balance
    undone: int
    why: str


class Case:
    """Takes windows in. `decode` gives the operation that ends at an address."""

    def __init__(self, watched: Watched, decode: Decode) -> None:
        self.watched = watched
        self.writers: dict[int, Writer] = {}
        self.windows: list[Window] = []
        self.overlaps: Counter[tuple[int, int]] = Counter()
        self.lost = 0
        self.step: int | None = None
        self.hot = 0.0
        """Writes a second that were too many; 0 while they are not."""
        self.heated = 0
        """Windows in a row, the last one included, whose writes came too fast."""
        self._decode = decode
        self._borne: dict[int, tuple[int, int]] = {}

    @property
    def spot(self) -> WatchSpot:
        """What is watched now."""
        return self.watched.spot

    @property
    def writes(self) -> int:
        """All trapped writes."""
        return sum(writer.writes for writer in self.writers.values())

    def balance(self) -> Balance:
        """Sum up the windows that were weighed."""
        total = Balance()
        for window in self.windows:
            total += window.balance
        return total

    def take(self, trapped: Trapped, slot: int) -> Sequence[Hit]:
        """Take one window in; `slot` says which of its spots is ours. Gives our hits in order of time."""
        found = hits.read(trapped.records, slot)
        for hit in found:
            self._writer(hit.ip).saw(hit)
        for earlier, later in pairwise(found):
            if earlier.cpu != later.cpu and later.t_ns - earlier.t_ns <= OVERLAP_NS:
                self.overlaps[min(earlier.ip, later.ip), max(earlier.ip, later.ip)] += 1
        self.lost += trapped.lost[slot] + max(0, trapped.missed[slot])
        why = self._incomplete(trapped, slot) or self._unfit(found)
        balance, bits = Balance(), 0
        if not why and found:
            why, balance, bits = self._weighed(found, len(trapped.cpus))
        seconds = (trapped.ended_ns - trapped.begun_ns) / 1e9
        self.windows.append(Window(seconds, len(found), balance, bits, why))
        return found

    def narrowed(self, found: Sequence[Hit]) -> WatchSpot | None:
        """Give the place that all writers really write, if it is another one than was guessed."""
        if not self.watched.guessed or not found:
            return None
        places = {self._written(hit) for hit in found}
        only = places.pop() if len(places) == 1 else None
        end = self.spot.address + self.spot.length
        inside = only is not None and self.spot.address <= only.address and only.address + only.length <= end
        return only if inside and only != self.spot else None

    def _written(self, hit: Hit) -> WatchSpot | None:
        operation = self._writer(hit.ip).operation
        if operation.place is None or operation.size not in {1, 2, 4, 8}:
            return None
        return WatchSpot(operation.place.address(hit), operation.size)

    def _writer(self, ip: int) -> Writer:
        if ip not in self.writers:
            self.writers[ip] = Writer(ip, self._decode(ip))
        return self.writers[ip]

    def _operation(self, ip: int) -> Operation:
        return self._writer(ip).operation

    def _incomplete(self, trapped: Trapped, slot: int) -> str:
        if not trapped.cpus:
            return "a CPU came or went"
        if trapped.missed[slot]:
            return f"{trapped.missed[slot]} traps went unread"
        return f"{trapped.lost[slot]} hits found no room" if trapped.lost[slot] else ""

    def _unfit(self, found: Sequence[Hit]) -> str:
        sizes = {self._operation(hit.ip).size for hit in found} - {0}
        if sizes - {self.spot.length}:
            return f"writers store {' and '.join(map(str, sorted(sizes)))} bytes, watched are {self.spot.length}"
        return ""

    def _weighed(self, found: Sequence[Hit], cpus: int) -> tuple[str, Balance, int]:
        operations = {hit.ip: self._operation(hit.ip) for hit in found}
        if any(operation.sets or operation.clears for operation in operations.values()):
            bits = undone(found, self._operation)
            return "" if bits else "writers change single bits: growth proves nothing", Balance(), len(bits)
        step = conservation.common_step(found, lambda hit: operations[hit.ip].delta(hit))
        if step is None:
            return _no_step(operations.values()), Balance(), 0
        for ip, operation in operations.items():
            if operation.way == "load_store" and (doubt := self._doubt(found, ip, operation)):
                return doubt, Balance(), 0
        self.step = step
        return "", conservation.balance(found, step, cpus, self.spot.length), 0

    def _doubt(self, found: Sequence[Hit], ip: int, operation: Operation) -> str:
        """Say why a load and a later store are not believed to be an update of this place; empty if they are."""
        places = {operation.source.address(hit) for hit in found if hit.ip == ip} if operation.source else set()
        if places - {self.spot.address}:
            return "a writer stores what it read elsewhere"
        agree, pairs = conservation.borne_out(found, ip, operation.step or 0, self.spot.length)
        before = self._borne.get(ip, (0, 0))
        self._borne[ip] = agree, pairs = before[0] + agree, before[1] + pairs
        if pairs < BORNE_OUT:
            return "too few writes to tell that what is stored is what was there plus a constant"
        return "" if 2 * agree >= pairs else "it is not certain that what is stored is what was there plus a constant"


def _no_step(operations: Collection[Operation]) -> str:
    if all(operation.step is not None for operation in operations):
        return "it is counted up and down: growth proves nothing"
    return "a writer stores what it did not read there, or an amount that cannot be told"
