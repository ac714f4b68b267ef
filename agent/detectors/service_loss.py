"""service_loss: a service that goes on at a lower profile or not at all: killed for memory, without sound, without a stream.

    ok ── one such event ──► critical ── quiet_s without another ──► ok

One event is enough: the service is to be degraded, and back, within 5 s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Le

from agent.detectors._cases import CaseDetector, Rule, Violation, facts, word
from agent.model import Event

NAME = "service_loss"
CAUSES = {"video.audio_lost": ("audio_lost", "lost its sound"), "video.timeout": ("timeout", "gets no stream")}
KINDS = frozenset({"proc.exit", *CAUSES})
ONCE, WINDOW_S, NEVER = 1, 1.0, 1e9  # each event is critical by itself
TICKS_S = 15.0  # findings end at a tick, and there is one every 10 s


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.service_loss]`."""

    quiet_s: Annotated[float, Ge(1), Le(86400)] = 30.0
    """Seconds without another event that end a finding."""


def make(options: Options) -> CaseDetector:
    """Make the detector."""

    def judge(event: Event) -> Violation | None:
        if event.kind == "proc.exit":
            subject, cause, what = word(event.data, "workload", ""), "oom", "was killed for lack of memory"
            if not subject or not event.data.get("oom"):
                return None
        else:
            subject, (cause, what) = event.subject, CAUSES[event.kind]
        kept = facts(event, "pid", "stream", "silent_s") | {"cause": cause, "settle_s": options.quiet_s + TICKS_S}
        return Violation(subject, 1.0, f"{subject} {what}", "critical", kept)

    return CaseDetector(NAME, KINDS, Rule(ONCE, WINDOW_S, NEVER, ONCE, NEVER, options.quiet_s), judge)
