"""Windows, budgets and rests, on watchpoints that replay a script."""

from __future__ import annotations

from collections.abc import Sequence

from agent.collider.case import Case
from agent.collider.hunt import Hunt, heap, places, suspects
from agent.collider.inquiry import HOT_PER_S, SHARE, SUSTAINED, TASTE_HITS, TRAP_NS, WINDOW_HITS, Inquiry
from agent.collider.symbols import Symbols
from agent.collider.target import Watched
from agent.model import Data
from agent.ports import Trapped, WatchSpot
from tests.collider.doubles import ADD, LOCKED_ADD, SPOT, Scripted, hit, record

from tests.collider.test_target import SYMBOLS  # isort: skip - the kallsyms of that file


def window(spots: Sequence[WatchSpot], ms: float, hits: int, every_ns: int) -> Trapped:
    """Make a window in which each spot has `hits` hits, evenly spread."""
    made = [hit(count, count, t_ns=count * every_ns, cpu=count % 2) for count in range(1, hits + 1)]
    count = len(spots)
    records = tuple(record(item, slot) for slot in range(count) for item in made)
    return Trapped(records, (hits,) * count, (0,) * count, (0,) * count, (0, 1), 0, round(ms * 1e6))


def opened(name: str = "frames") -> Case:
    """Open a case on a plain counter."""
    return Case(Watched(name, SPOT, guessed=False), lambda _ip: ADD)


def test_the_budget() -> None:
    """Pins the taste first, the limit of each window, and a rest that keeps the traps below their share of the time."""
    watch = Scripted(lambda spots, _seconds, limit: window(spots, 200, limit, 100_000))
    Inquiry(watch, watch, watch.pause).run([opened()], 10)
    limits = [limit for _spots, _seconds, limit in watch.windows]
    assert limits[0] == TASTE_HITS
    assert set(limits[1:]) == {WINDOW_HITS}
    hits = sum(limits)
    assert hits * TRAP_NS / watch.now <= SHARE * 1.05
    assert watch.now >= 10e9


def test_several_at_once_share_the_limit() -> None:
    """Pins that four spots together trap no more than one alone would."""
    watch = Scripted(lambda spots, _seconds, limit: window(spots, 100, limit // 2, 100_000))
    Inquiry(watch, watch, watch.pause).run([opened() for _ in range(4)], 2)
    assert {limit * len(spots) for spots, _seconds, limit in watch.windows[1:]} == {WINDOW_HITS}


def test_too_many_traps_end_it() -> None:
    """Pins that hits at 50,000 a second in one taste after the other are too hot."""
    watch = Scripted(lambda spots, _seconds, limit: window(spots, 4, limit, 20_000))
    case = opened()
    Inquiry(watch, watch, watch.pause).run([case], 10)
    assert [limit for _spots, _seconds, limit in watch.windows] == [TASTE_HITS] * SUSTAINED
    assert 45_000 < case.hot < 55_000


def test_a_burst_is_not_hot() -> None:
    """Pins that a taste which happens to fall into a burst ends nothing: it is looked at again, then as long as was asked."""
    watch = Scripted(
        lambda spots, seconds, limit: (
            window(spots, 4, limit, 20_000) if watch.now < 1e7 else window(spots, 1e3 * seconds, 50, 100_000)
        )
    )
    case = opened()
    Inquiry(watch, watch, watch.pause).run([case], 2)
    assert (case.hot, case.heated) == (0, 0)
    assert [limit for _spots, _seconds, limit in watch.windows][:3] == [TASTE_HITS, TASTE_HITS, WINDOW_HITS]
    assert watch.now >= 2e9


def test_growth_while_nothing_is_armed_ends_it() -> None:
    """Pins that a counter whose traps slow it down is found hot by how fast it grows in the rest."""
    watch = Scripted(lambda spots, _seconds, _limit: window(spots, 50, 100, 500_000), value=lambda now: now // 1000)
    case = opened()
    Inquiry(watch, watch, watch.pause).run([case], 10)
    assert len(watch.windows) == 1
    assert case.hot > HOT_PER_S


def test_suspects_are_modules_whose_timers_ran() -> None:
    """Pins the order: callbacks seen on several CPUs first; the kernel's own and idle ones are none."""
    callbacks: list[Data] = [
        {"function": "other_tick", "count": 500, "cpus": [1]},
        {"function": "lost_tick", "count": 20, "cpus": [0, 1]},
        {"function": "schedule_timeout", "count": 9000, "cpus": [0, 1]},
        {"function": "nobody", "count": 1, "cpus": []},
    ]
    assert suspects(callbacks, SYMBOLS) == ["lost", "other"]
    assert suspects([{"function": "lost_tick", "count": 0, "cpus": []}], SYMBOLS) == []


def test_places_of_a_module() -> None:
    """Pins that every variable's first bytes come first, cut by alignment and the next symbol, without the build's own."""
    found = [(place.name, place.spot.length) for place in places(SYMBOLS, "lost")]
    assert found[:3] == [("frames", 8), ("table", 8), ("table+0x8", 8)]
    assert len(found) == 1 + 64 // 8
    odd = Symbols(["ffffffff82000004 b a\t[m]", "ffffffff8200000a b b\t[m]", "ffffffff8200000b b c\t[m]"])
    assert [(item.name, item.spot.length) for item in places(odd, "m")][:3] == [("a", 4), ("b", 1), ("c", 1)]


def test_a_hunt_ends_when_nothing_is_left_to_look_at() -> None:
    """Pins that a hunt whose every place is acquitted ends before its time."""
    watch = Scripted(lambda spots, _seconds, _limit: window(spots, 50, 20, 1_000_000))
    hunt = Hunt(
        Inquiry(watch, watch, watch.pause), watch, lambda place: Case(place, lambda _ip: LOCKED_ADD), lambda _text: None
    )
    hunt.run(places(SYMBOLS, "lost")[:2], 1000)
    assert len(hunt.acquitted) == 2
    assert watch.now < 1e9


def test_the_hunt_sorts_out() -> None:
    """Pins the hunt: writers that read and write back are watched until the end, atomic ones are acquitted, others dropped."""

    def script(spots: Sequence[WatchSpot], _seconds: float, _limit: int) -> Trapped:
        return window(spots, 50, 20, 1_000_000)

    watch = Scripted(script)
    operations = {"frames": ADD, "table": LOCKED_ADD}

    def case(place: Watched) -> Case:
        return Case(place, lambda _ip: operations[place.name])

    hunt = Hunt(Inquiry(watch, watch, watch.pause), watch, case, lambda _text: None)
    hunt.run(places(SYMBOLS, "lost")[:2], 20)
    assert [found.watched.name for found in hunt.candidates] == ["frames"]
    assert [found.watched.name for found in hunt.acquitted] == ["table"]
    assert hunt.scanned == {"frames", "table"}
    assert watch.now >= 20e9


def test_objects_on_the_heap() -> None:
    """Pins what is followed: a pointer to an object that holds a function of the module; its timer's own words are left out."""
    heap_at, other_at, tick = 0xFFFF_8880_0000_1000, 0xFFFF_8880_0000_2000, 0xFFFF_FFFF_C000_0000
    words = {
        0xFFFF_FFFF_C000_1010: heap_at,
        0xFFFF_FFFF_C000_1018: other_at,
        0xFFFF_FFFF_C000_1020: heap_at,
        heap_at + 80: tick,
    }

    def peek(address: int, length: int) -> bytes:
        return b"".join(words.get(at, 0).to_bytes(8, "little") for at in range(address, address + length, 8))

    found = heap(SYMBOLS, "lost", peek)
    assert [place.name for place in found[:6]] == [f"*table{tail}" for tail in ("", "+0x8", "+0x10", "+0x18", "+0x20", "+0x68")]
    assert [place.spot for place in found[:2]] == [WatchSpot(heap_at, 8), WatchSpot(heap_at + 8, 8)]
    assert len(found) == 256 // 8 - 8
    assert heap(SYMBOLS, "other", peek) == []
