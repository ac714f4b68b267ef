"""The verdict on a case, as a table: the first line that fits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from agent.collider.case import Case, Writer
from agent.collider.conservation import Balance
from agent.collider.instruction import Operation

Verdict = Literal["race", "none seen", "inconclusive"]
Names = Callable[[int], str]


def verdict(case: Case, names: Names) -> tuple[Verdict, str]:
    """Give the verdict and one line that says why."""
    weighed = case.balance()
    undone = sum(window.undone for window in case.windows)
    plain = [writer for writer in case.writers.values() if writer.operation.plain]
    cpus = {cpu for writer in case.writers.values() for cpu in writer.cpus}
    atomic = all(writer.operation.atomic for writer in case.writers.values())
    accused = _accused(plain, names)
    table: tuple[tuple[bool, Verdict, Callable[[], str]], ...] = (
        (bool(case.hot), "inconclusive", lambda: _hot(case)),
        (not case.writes, "none seen", lambda: f"nobody wrote to it in {_seconds(case):.1f} s"),
        (weighed.lost > 0 and not plain, "inconclusive", lambda: f"{_lost(weighed)}, yet {accused}"),
        (weighed.lost > 0, "race", lambda: f"{_lost(weighed)}; {accused}"),
        (undone > 0, "race", lambda: f"{undone} times a bit was undone by a writer that does not own it; {accused}"),
        (atomic, "none seen", lambda: "every writer is atomic (LOCK or xchg)"),
        (weighed.writes > 0 and len(cpus) == 1, "none seen", lambda: f"all writes came from CPU {min(cpus)}, none was lost"),
        (weighed.writes > 0, "none seen", lambda: f"{_guarded(weighed)}; {accused}"),
        (True, "inconclusive", lambda: "; ".join([*_reasons(case), *_overlaps(case, names)])),
    )
    return next((found, reason()) for fits, found, reason in table if fits)


def _hot(case: Case) -> str:
    return f"too hot: {case.hot:,.0f} writes a second, stopped by the budget after {case.writes:,} trapped writes"


def _lost(weighed: Balance) -> str:
    return f"at least {weighed.lost:,} of {weighed.writes:,} updates were lost"


def _guarded(weighed: Balance) -> str:
    return f"none of {weighed.writes:,} updates was lost: a lock guards it, or these windows met no collision"


def _seconds(case: Case) -> float:
    return sum(window.seconds for window in case.windows)


def _accused(plain: list[Writer], names: Names) -> str:
    if not plain:
        return "no writer reads and writes back without LOCK"
    cpus = sorted({cpu for writer in plain for cpu in writer.cpus})
    places = " and ".join(steps(writer.operation, names) for writer in plain[:4])
    return f"plain read-modify-write by {places} on CPU {', '.join(map(str, cpus))}"


def steps(operation: Operation, names: Names) -> str:
    """Give the instructions by which a writer reads and writes back: one, or a load and a store."""
    store = f"`{operation.text}` in {names(operation.address)}"
    return f"`{operation.load}` in {names(operation.load_address)}, then {store}" if operation.load else store


def _reasons(case: Case) -> list[str]:
    return list(dict.fromkeys(window.why for window in case.windows if window.why))[:3]


def _overlaps(case: Case, names: Names) -> list[str]:
    found = []
    for pair, count in case.overlaps.most_common(4):
        first, second = (names(case.writers[ip].operation.address) for ip in pair)
        found.append(f"{first} and {second} wrote within 20 us on two CPUs, {count} times")
    return found
