"""Loops of lives that end too soon: of a workload's processes, or of the machine's boots. Shared by detectors and policies.

    a loop = `count` ends within `within_s`, or `in_a_row` lives in a row that were shorter than `stable_s`

Lives are dated by what they lasted, not by a clock: the monotonic clock begins anew with each boot, and the wall clock steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass

from agent.errors import StoreError
from agent.model import Data, Json

KEPT = 16
_LONGEST_S = 10 * 365 * 86400.0
_WORD = 64


@dataclass(frozen=True, slots=True)
class Rule:
    """What makes a loop."""

    count: int
    within_s: float
    in_a_row: int
    stable_s: float


@dataclass(frozen=True, slots=True)
class Life:
    """One process or boot that ended: `key` names it (an incarnation), `cause` says how it ended."""

    key: str
    lasted_s: float
    cause: str
    version: str = ""


class Lives:
    """The last KEPT lives, oldest first."""

    def __init__(self, rule: Rule, lives: Iterable[Life] = ()) -> None:
        """Start with what is remembered."""
        self.rule = rule
        self.ring = deque(lives, maxlen=KEPT)

    def ended(self, life: Life) -> None:
        """Take note of an end; one of a life that is known already changes nothing (messages are told twice)."""
        if all(known.key != life.key for known in self.ring):
            self.ring.append(life)

    def loop(self) -> str:
        """Give why this is a loop, in words; empty if it is none."""
        rule, lives = self.rule, list(self.ring)
        # The count-th newest life began its end when all after it had still to be lived.
        newest = lives[-rule.count :]
        span_s = sum(life.lasted_s for life in newest[1:])
        if len(newest) == rule.count and span_s <= rule.within_s:
            return f"{rule.count} ends within {span_s:.0f} s"
        row = lives[-rule.in_a_row :]
        if len(row) == rule.in_a_row and all(life.lasted_s < rule.stable_s for life in row):
            return f"{rule.in_a_row} in a row lasted less than {rule.stable_s:g} s"
        return ""

    def stable(self) -> None:
        """Forget them all: a life has lasted long enough."""
        self.ring.clear()

    def plain(self) -> list[Json]:
        """Give the ring as JSON."""
        return [asdict(life) for life in self.ring]


def restored(value: Json) -> list[Life]:
    """Read back what `Lives.plain` gave. Raises StoreError for anything else."""
    if not isinstance(value, list) or len(value) > KEPT:
        raise StoreError(f"not a list of at most {KEPT} lives")
    return [_life(row) for row in value]


def _life(row: Json) -> Life:
    lasted = row.get("lasted_s") if isinstance(row, dict) else None
    if not isinstance(row, dict) or isinstance(lasted, bool) or not isinstance(lasted, int | float):
        raise StoreError(f"not a life: {str(row)[:80]}")
    if not 0 <= lasted <= _LONGEST_S:  # not NaN either
        raise StoreError(f"a life lasted {str(lasted)[:30]} s")
    return Life(_word(row, "key"), float(lasted), _word(row, "cause"), _word(row, "version"))


def _word(row: Data, key: str) -> str:
    found = row.get(key)
    if not isinstance(found, str):
        raise StoreError(f"a life has no {key}")
    return found[:_WORD]
