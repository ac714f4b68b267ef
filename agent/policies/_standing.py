"""Where one workload stands on the ladder."""

from __future__ import annotations

from dataclasses import dataclass, field

from agent import narrow
from agent.model import Data, Finding, Json
from agent.policies import _kept
from agent.policies._rungs import GROUND, INDEX, RUNGS, Rung

NS = 1_000_000_000
STABLE_S = 600.0
RESTORE_S = 600.0
PROFILES = 16
_SETTLE_MOST_S = 3600.0


@dataclass(slots=True)
class Standing:
    """`at` is the index of the rung that was taken last (GROUND: none); times are CLOCK_MONOTONIC in ns."""

    at: int = GROUND
    start: int = 0
    """The lowest rung that is to be tried next."""
    last: str = ""
    """The rung taken last, ever."""
    why: str = ""
    """The cause that it was taken for."""
    taken_ns: int = 0
    ready_ns: int = 0
    """When it will be seen whether that helped."""
    opened_ns: int = 0
    patience_ns: int = 0
    """How long the newest finding takes to show that nothing needs to be done."""
    quiet_ns: int = 0
    """Since when nothing is open."""
    stepped_ns: int = 0
    """The last step down."""
    profile: int = 0
    """How many profiles down it is."""
    open: dict[str, Finding] = field(default_factory=dict)
    """The critical findings about it, by detector."""

    def resume(self, finding: Finding, now_ns: int, cured_s: float) -> None:
        """Take in a critical finding. After a cure of `cured_s` the cheap rungs are tried again, each within its budget."""
        if not self.open:
            self.opened_ns = now_ns
            if self.at != GROUND and now_ns - self.quiet_ns >= cured_s * NS:
                self.at = min(self.at, INDEX["restart"])
                self.start = 0 if self.at <= INDEX["terminate"] else self.at
            if self.at == GROUND or not RUNGS[self.at].machine:  # what is raised anew shows already how the last rung went
                self.ready_ns = min(self.ready_ns, now_ns)
        self.patience_ns = round(min(narrow.number(finding.data.get("settle_s")), _SETTLE_MOST_S) * NS)
        self.open[finding.detector] = finding

    def taken(self, rung: Rung, finding: Finding, now_ns: int) -> None:
        """Take note of a rung. What can be tried once more (another profile) stays the next one."""
        self.at, self.last, self.taken_ns = INDEX[rung.name], rung.name, now_ns
        self.why = str(finding.data.get("cause"))
        self.start = self.at if rung.name == "degrade" else min(self.at + 1, len(RUNGS))
        told_s = min(narrow.number(finding.data.get("settle_s")), _SETTLE_MOST_S)
        self.ready_ns = now_ns + round(max(rung.settle_s, told_s) * NS) if rung.settle_s else now_ns

    def descend(self, now_ns: int) -> bool:
        """Come one rung down if it has been quiet for long enough; gives whether it did."""
        if self.at == GROUND or now_ns - max(self.quiet_ns, self.taken_ns, self.stepped_ns) < STABLE_S * NS:
            return False
        self.at -= 1
        self.start = min(self.start, self.at + 1)
        self.stepped_ns = now_ns
        return True

    def plain(self) -> Data:
        """Give it as JSON; findings are not kept, their detectors raise them anew."""
        times: Data = {"taken_ns": self.taken_ns, "ready_ns": self.ready_ns}
        return {"at": self.at, "start": self.start, "last": self.last, "why": self.why, "profile": self.profile, **times}


def standing(value: Json, shift_ns: int, now_ns: int) -> Standing:
    """Read back what `Standing.plain` gave; whether it is quiet now is not known yet. Raises StoreError."""
    row = _kept.row(value)
    last = _kept.text(row, "last")
    return Standing(
        at=_kept.whole(row.get("at"), GROUND, len(RUNGS) - 1),
        start=_kept.whole(row.get("start"), 0, len(RUNGS)),
        last=last if last in INDEX else "",
        why=_kept.text(row, "why")[:64],
        taken_ns=min(_kept.time(row, "taken_ns") + shift_ns, now_ns),
        ready_ns=min(_kept.time(row, "ready_ns") + shift_ns, now_ns + round(_SETTLE_MOST_S * NS)),
        quiet_ns=now_ns,
        profile=_kept.whole(row.get("profile"), 0, PROFILES),
    )
