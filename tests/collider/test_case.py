"""Cases: which windows are weighed, what is concluded, and how it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from agent.collider.case import Case
from agent.collider.hits import Hit
from agent.collider.instruction import UNKNOWN, Operation, Place
from agent.collider.report import context, report
from agent.collider.target import Watched
from agent.collider.verdict import verdict
from agent.ports import WatchSpot
from tests.collider.doubles import ADD, ATOMIC, LOCKED_ADD, PLAIN, SPOT, hit, trapped

STORE = Operation(PLAIN - 3, "mov qword ptr [rax], rcx", "store", 8)
LOAD_STORE = replace(STORE, way="load_store", step=1)
LOSING = [hit(1000, 1), hit(1030, 50, cpu=1), hit(1060, 101)]
KEEPING = [hit(1000, 1), hit(1049, 50, cpu=1), hit(1100, 101)]


def case(operations: Mapping[int, Operation] | None = None, *, guessed: bool = False) -> Case:
    """Open a case on 8 bytes."""
    known = operations or {PLAIN: ADD, ATOMIC: LOCKED_ADD}
    return Case(Watched("frames", SPOT, guessed), lambda ip: known.get(ip, UNKNOWN))


def judged(hits: Sequence[Hit], operations: Mapping[int, Operation] | None = None) -> tuple[str, str]:
    """Give the verdict on one window."""
    made = case(operations)
    made.take(trapped(hits), 0)
    return verdict(made, hex)


def test_a_deficit_is_a_race() -> None:
    """Pins the verdict `race`, with the bound and the accused."""
    assert judged(LOSING) == (
        "race",
        "at least 39 of 100 updates were lost; plain read-modify-write by `add qword ptr [rax], 1` in 0xffc on CPU 0, 1",
    )


def test_no_deficit_is_no_race() -> None:
    """Pins that plain instructions on two CPUs accuse, and yet are no verdict: a lock may guard them."""
    found, reason = judged(KEEPING)
    assert found == "none seen"
    assert reason.startswith("none of 100 updates was lost: a lock guards it, or these windows met no collision; plain read-")


def test_lock_acquits() -> None:
    """Pins that an atomic writer is acquitted, and that a deficit against it is a contradiction, not a race."""
    atomic = [replace(item, ip=ATOMIC) for item in KEEPING]
    assert judged(atomic) == ("none seen", "every writer is atomic (LOCK or xchg)")
    found, reason = judged([replace(item, ip=ATOMIC) for item in LOSING])
    assert (found, reason) == (
        "inconclusive",
        "at least 39 of 100 updates were lost, yet no writer reads and writes back without LOCK",
    )


def test_one_cpu() -> None:
    """Pins the reason where a single CPU writes."""
    alone = [replace(item, cpu=1) for item in KEEPING]
    assert judged(alone) == ("none seen", "all writes came from CPU 1, none was lost")
    assert judged([]) == ("none seen", "nobody wrote to it in 0.1 s")


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (STORE, "a writer stores what it did not read there, or an amount that cannot be told"),
        (UNKNOWN, "a writer stores what it did not read there"),
        (replace(ADD, size=4), "writers store 4 bytes, watched are 8"),
        (replace(ADD, step=None, sets=1), "writers change single bits: growth proves nothing"),
        (LOAD_STORE, "too few writes to tell that what is stored is what was there plus a constant"),
    ],
)
def test_inconclusive(operation: Operation, words: str) -> None:
    """Pins that a deficit proves nothing where the amount of a write is not known, and the words for it."""
    found, reason = judged(LOSING, {PLAIN: operation})
    assert found == "inconclusive"
    assert words in reason


def test_up_and_down_lists_overlaps() -> None:
    """Pins that a counter that goes both ways is inconclusive, with the writers that met listed."""
    hits = [hit(1, 1), hit(0, 2, ip=ATOMIC, cpu=1), hit(1, 3)]
    found, reason = judged(hits, {PLAIN: ADD, ATOMIC: replace(ADD, address=ATOMIC - 4, step=-1)})
    assert found == "inconclusive"
    assert reason == (
        "it is counted up and down: growth proves nothing; 0xffc and 0x1ffc wrote within 20 us on two CPUs, 2 times"
    )


def test_incomplete_windows_are_not_weighed() -> None:
    """Pins that a missed trap, a lost hit or a CPU that came takes a window out, and that `lost` counts the first two."""
    made = case()
    made.take(trapped(LOSING, missed=2), 0)
    made.take(trapped(LOSING, lost=3), 0)
    made.take(trapped(LOSING, cpus=()), 0)
    assert made.balance().lost == 0
    assert made.lost == 5
    assert [window.why for window in made.windows] == ["2 traps went unread", "3 hits found no room", "a CPU came or went"]


def test_a_load_and_a_store_are_believed_when_the_values_agree() -> None:
    """Pins that a store of `what was loaded plus one` counts once four values in a row bear it out, over windows."""
    made = case({PLAIN: LOAD_STORE})
    made.take(trapped([hit(5, 1), hit(6, 2), hit(7, 3)]), 0)
    assert made.windows[0].why
    made.take(trapped([hit(7, 1), hit(8, 2), hit(9, 3), hit(9, 4, cpu=1), hit(9, 5), hit(9, 6)]), 0)
    assert (made.windows[1].why, made.balance().lost) == ("", 2)


def test_a_copy_of_another_counter_is_not_believed() -> None:
    """Pins that a store of another variable plus one is no update of this one, whatever the values say."""
    elsewhere = replace(LOAD_STORE, source=Place(offset=SPOT.address + 64))
    found, reason = judged([hit(value, value) for value in range(1, 9)], {PLAIN: elsewhere})
    assert (found, reason) == ("inconclusive", "a writer stores what it read elsewhere")
    found, reason = judged([hit(3 * value, value) for value in range(1, 9)], {PLAIN: LOAD_STORE})
    assert (found, reason) == ("inconclusive", "it is not certain that what is stored is what was there plus a constant")


def test_the_length_is_that_of_the_writers() -> None:
    """Pins that a guessed length gives way to what the instructions write, one that was asked for does not."""
    four = {PLAIN: replace(ADD, size=4, place=Place(offset=SPOT.address + 4))}
    guessed = case(four, guessed=True)
    assert guessed.narrowed(guessed.take(trapped(KEEPING), 0)) == WatchSpot(SPOT.address + 4, 4)
    asked = case(four)
    assert asked.narrowed(asked.take(trapped(KEEPING), 0)) is None


def test_the_report() -> None:
    """Pins the keys of the contract."""
    made = case()
    made.take(trapped([replace(item, stack=7) for item in LOSING]), 0)
    names = {0xFFC: "tick+0x3 [m]", 1: "call_timer_fn", 2: "__do_softirq"}
    found = report(made, lambda address: names.get(address, "?"), lambda _number: (1, 2))
    assert list(found) == [
        *("symbol", "address", "length", "writes", "growth", "lost_updates", "writers", "windows", "verdict", "reason"),
    ]
    assert (found["symbol"], found["address"], found["writes"], found["growth"]) == ("frames", hex(SPOT.address), 100, 60)
    assert found["writers"] == [
        {
            "symbol": "tick+0x3 [m]",
            "instruction": "add qword ptr [rax], 1",
            "load": None,
            "atomic": False,
            "contexts": ["softirq"],
            "cpus": [0, 1],
            "writes": 3,
            "stack": ["call_timer_fn", "__do_softirq"],
        }
    ]
    assert found["windows"] == [{"seconds": 0.1, "writes": 3, "growth": 60, "lost_updates": 39, "unweighed": None}]


def test_contexts() -> None:
    """Pins that the innermost frame that tells decides."""
    assert context(["tick", "call_timer_fn", "handle_softirqs+0x1", "asm_sysvec_apic_timer_interrupt"]) == "softirq"
    assert context(["tick", "__hrtimer_run_queues", "hrtimer_interrupt+0x10", "asm_sysvec_apic"]) == "hardirq"
    assert context(["work", "asm_exc_nmi"]) == "nmi"
    assert context(["work", "kthread"]) == "task"
    assert context([]) == "task"
