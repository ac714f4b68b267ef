"""Which data to watch when nobody says which: that of modules whose timers run, a few bytes of each variable at a time.

What a module keeps on the heap is found through its variables: an object that one of them points to, and that holds the address
of a function of the module (a callback of a timer, the function of a work), is its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from agent.collider.case import Case
from agent.collider.inquiry import WINDOW_HITS, Inquiry
from agent.collider.symbols import KERNEL, Symbol, Symbols
from agent.collider.target import LENGTHS, Watched
from agent.model import Data
from agent.ports import Clock, WatchSpot

REGISTERS = 4  # of x86: so many places at a time
ROOM = 64  # bytes of one symbol that are looked at; kallsyms has no sizes, so a large array would never end
WORD = 8
OBJECT = 256  # bytes of an object on the heap that are looked at; its size is not known
OBJECTS = 16  # of a module
TIMER = (40, 24)  # bytes before and behind the address of a callback that are the timer's own: struct hrtimer and timer_list
SCAN_S, SCAN_S_MOST = 0.06, 1.0  # how long each group is watched for writers; doubles with each fruitless round
SLICE_S = 4.0  # how long a group of candidates is watched before the next one gets its turn
ENOUGH = 10  # lost updates: further watching adds nothing
SECOND_NS = 1e9


def suspects(callbacks: Sequence[Data], symbols: Symbols) -> list[str]:
    """Give the modules whose timer callbacks ran: those that run on several CPUs first, then the busiest.

    `callbacks` are the rows of the report of the probe `timers`.
    """
    weight: dict[str, tuple[int, int]] = {}
    for row in callbacks:
        module = symbols.module_of(str(row.get("function")))
        cpus, count = row.get("cpus"), row.get("count")
        if module and isinstance(count, int) and count > 0:
            several = len(cpus) if isinstance(cpus, list) else 0
            before = weight.get(module, (0, 0))
            weight[module] = (max(before[0], several), before[1] + count)
    return sorted(weight, key=lambda module: weight[module], reverse=True)


def places(symbols: Symbols, module: str) -> list[Watched]:
    """Cut the data of a module into places for a watchpoint: the first bytes of every variable, then those behind them."""
    cut = [list(_pieces(symbol, symbols.room(symbol, ROOM))) for symbol in symbols.data_of(module)]
    deepest = max(map(len, cut), default=0)
    return [pieces[depth] for depth in range(deepest) for pieces in cut if depth < len(pieces)]


def _pieces(symbol: Symbol, room: int) -> list[Watched]:
    found: list[Watched] = []
    at = symbol.address
    end = symbol.address + room
    while at < end:
        length = max(item for item in LENGTHS if at % item == 0 and at + item <= end)
        found.append(Watched(_named(symbol.name, at - symbol.address), WatchSpot(at, length), guessed=True))
        at += length
    return found


def heap(symbols: Symbols, module: str, peek: Callable[[int, int], bytes]) -> list[Watched]:
    """Cut the objects on the heap that belong to a module into places, named through the pointer to them."""
    functions = symbols.functions_of(module)
    found: dict[int, list[Watched]] = {}
    for symbol in symbols.data_of(module):
        for at, start in _words(symbol.address, peek(symbol.address, symbols.room(symbol, ROOM))):
            if len(found) >= OBJECTS or start in found or start < KERNEL or start % WORD or symbols.at(start):
                continue
            words = _words(0, peek(start, OBJECT))
            callbacks = [offset for offset, word in words if word in functions]
            if callbacks:
                name = f"*{symbol.name}" if at == symbol.address else f"*{at:#x}"
                own = [offset for offset, _word in words if not any(_of_timer(offset, mark) for mark in callbacks)]
                found[start] = [Watched(_named(name, offset), WatchSpot(start + offset, WORD), guessed=True) for offset in own]
    return [place for places in found.values() for place in places]


def _words(start: int, raw: bytes) -> list[tuple[int, int]]:
    """Give (address, word) of what lies from `start` on; the first address is rounded up to a whole word."""
    first = -start % WORD
    return [(start + at, int.from_bytes(raw[at : at + WORD], "little")) for at in range(first, len(raw) - WORD + 1, WORD)]


def _named(name: str, offset: int) -> str:
    return f"{name}+{offset:#x}" if offset else name


def _of_timer(offset: int, callback: int) -> bool:
    return callback - TIMER[0] <= offset < callback + TIMER[1]


@dataclass(slots=True)
class Hunt:
    """Rotates the debug registers over places until the time is over."""

    inquiry: Inquiry
    clock: Clock
    case: Callable[[Watched], Case]
    told: Callable[[str], None]
    candidates: list[Case] = field(default_factory=list)
    acquitted: list[Case] = field(default_factory=list)
    scanned: set[str] = field(default_factory=set)
    settled: set[Watched] = field(default_factory=set)
    lost: int = 0

    def run(self, wanted: Sequence[Watched], seconds: float) -> None:
        """Scan all places for writers that read and write back, then watch those: for `seconds` in all. Raises a ProbeError."""
        deadline = self.clock.mono_ns() + round(seconds * SECOND_NS)
        window = SCAN_S
        while wanted and (left := self._left(deadline)) > 0:
            rest = [place for place in wanted if place not in self.settled]
            self._scan(rest, window, deadline)
            open_cases = [case for case in self.candidates if not case.hot and case.balance().lost < ENOUGH]
            if not rest and not open_cases:
                return
            for begin in range(0, len(open_cases), REGISTERS):
                left = self._left(deadline)
                if left > 0:
                    self._watch(open_cases[begin : begin + REGISTERS], min(SLICE_S, left))
            window = min(SCAN_S_MOST, 2 * window)

    def _left(self, deadline: int) -> float:
        return (deadline - self.clock.mono_ns()) / SECOND_NS

    def _scan(self, wanted: Sequence[Watched], seconds: float, deadline: int) -> None:
        for begin in range(0, len(wanted), REGISTERS):
            if self._left(deadline) <= 0:
                return
            looked_at = wanted[begin : begin + REGISTERS]
            group = [self.case(place) for place in looked_at]
            self.told(f"looking for writers of {', '.join(case.watched.name for case in group)} …")
            self.inquiry.window(group, seconds, WINDOW_HITS // REGISTERS // 4)
            self.scanned |= {case.watched.name.split("+")[0] for case in group}
            self.settled |= {place for place, case in zip(looked_at, group, strict=True) if self._settles(case)}

    def _settles(self, case: Case) -> bool:
        """Sort a case by its writers; False if nobody wrote there who reads first."""
        operations = [writer.operation for writer in case.writers.values()]
        if any(operation.plain for operation in operations):
            self.candidates.append(case)
            return True
        if operations and all(operation.atomic for operation in operations):
            self.acquitted.append(case)
            return True
        self.lost += case.lost
        return False

    def _watch(self, cases: Sequence[Case], seconds: float) -> None:
        self.told(f"watching {', '.join(case.watched.name for case in cases)} …")
        self.inquiry.run(cases, seconds)
