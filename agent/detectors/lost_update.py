"""lost_update: a counter that timer callbacks count up grows by less than they add, while they overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import CaseDetector, Rule, Violation, facts, number, word
from agent.model import Event

NAME = "lost_update"
KINDS = frozenset({"race.lost_update"})

# Each event is a proof by counting already, of at least one window; two of them tell a race from what nobody thought of. Never
# critical: a wrong count harms by what is made of it, and that has findings of its own.
DEGRADED_COUNT, WINDOW_S = 2, 600.0
NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.lost_update]`."""

    quiet_s: Annotated[float, Ge(1), Le(86400)] = 3600.0
    """Seconds without a lost update of that counter that end a finding."""


def _judge(event: Event) -> Violation | None:
    lost = number(event.data, "deficit")
    if lost <= 0:
        return None
    callback = word(event.data, "callback", "its callbacks")
    summary = (
        f"{event.subject} lost at least {lost:.0f} of {number(event.data, 'expected'):.0f} "
        f"that {callback} added, in {number(event.data, 'windows'):.0f} windows"
    )
    keys = ("symbol", "callback", "callbacks", "step", "expected", "growth", "deficit", "windows", "alone", "address", "length")
    return Violation(event.subject, 1.0, summary, data={"class": "F6", **facts(event, *keys)})


def make(options: Options) -> CaseDetector:
    """Make the detector."""
    return CaseDetector(NAME, KINDS, Rule(DEGRADED_COUNT, WINDOW_S, NEVER, DEGRADED_COUNT, NEVER, options.quiet_s), _judge)
