"""A case as the JSON of `agentctl race prove`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from agent.collider.case import Case, Window, Writer
from agent.collider.verdict import Names, verdict
from agent.model import Data, Json

Stack = Callable[[int], Sequence[int]]
# Innermost first, the first frame that tells decides. Names of arch/x86/entry and kernel/softirq.c, old and new.
_CONTEXTS = (
    ("asm_exc_nmi", "nmi"),
    ("__do_softirq", "softirq"),
    ("handle_softirqs", "softirq"),
    ("__softirqentry_text_start", "softirq"),
    ("asm_sysvec_", "hardirq"),
    ("asm_common_interrupt", "hardirq"),
    ("hrtimer_interrupt", "hardirq"),
)


def context(frames: Sequence[str]) -> str:
    """Give nmi, softirq, hardirq or task for a kernel stack, innermost first."""
    for frame in frames:
        for mark, name in _CONTEXTS:
            if frame.startswith(mark):
                return name
    return "task"


def report(case: Case, names: Names, stack: Stack) -> Data:
    """Give the whole case."""
    found, reason = verdict(case, names)
    weighed = case.balance()
    return {
        "symbol": case.watched.name,
        "address": hex(case.spot.address),
        "length": case.spot.length,
        "writes": weighed.writes or case.writes,
        "growth": weighed.growth,
        "lost_updates": weighed.lost + sum(window.undone for window in case.windows),
        "writers": [
            _writer(writer, names, stack) for writer in sorted(case.writers.values(), key=lambda item: (-item.writes, item.ip))
        ],
        "windows": [_window(window) for window in case.windows],
        "verdict": found,
        "reason": reason,
    }


def _writer(writer: Writer, names: Names, stack: Stack) -> Data:
    stacks = [[names(address) for address in stack(number)] for number in sorted(writer.stacks)]
    return {
        "symbol": names(writer.operation.address),
        "instruction": writer.operation.text,
        "load": _load(writer, names),
        "atomic": writer.operation.atomic,
        "contexts": list[Json](sorted({context(frames) for frames in stacks})),
        "cpus": list[Json](sorted(writer.cpus)),
        "writes": writer.writes,
        "stack": list[Json](stacks[0]) if stacks else [],
    }


def _load(writer: Writer, names: Names) -> Json:
    """Give the instruction that loaded what this one stores; null for one that does both, or where that is not certain."""
    operation = writer.operation
    return {"symbol": names(operation.load_address), "instruction": operation.load} if operation.load else None


def _window(window: Window) -> Data:
    return {
        "seconds": round(window.seconds, 4),
        "writes": window.writes,
        "growth": window.balance.growth,
        "lost_updates": window.balance.lost + window.undone,
        "unweighed": window.why or None,
    }
