"""What `race scan` makes of two snapshots of the probe: findings by class, callback and actor. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.detectors._race_verdict import judge
from agent.model import Data, Json
from agent.narrow import count, part, rows

ORDER = ("fault", "suspect", "benign")


@dataclass(frozen=True, slots=True)
class Interval:
    """The probe's report of an interval, and the snapshots at its ends."""

    report: Data
    before: Data
    after: Data

    @property
    def lost(self) -> int:
        """Suspicions that could not be kept or told."""
        return _grown(self, "lost")

    @property
    def misses(self) -> int | None:
        """Events that the kernel did not show to the probe, as it was busy with another one; None if it does not say."""
        return _grown(self, "misses") if isinstance(self.after.get("misses"), int) else None


def _grown(interval: Interval, key: str) -> int:
    return max(0, count(interval.after.get(key)) - count(interval.before.get(key)))


def tier(snapshot: Data) -> str:
    """Give A, B or C by the kinds of programs that are attached; `unknown` if they are not told."""
    programs = snapshot.get("programs")
    names = [str(name) for name in programs] if isinstance(programs, list) else []
    if any(name.endswith(("_fentry", "_kprobe")) for name in names):
        return "A"
    if names:
        return "B" if any(name.endswith("_btf") for name in names) else "C"
    return "unknown"


def findings(interval: Interval) -> list[Data]:
    """Give the findings, faults first. What rests on our own record alone is left out if an event was not seen meanwhile."""
    complete = not interval.lost and not interval.misses
    merged: dict[tuple[str, ...], Data] = {}
    for report in rows(interval.report, "found"):
        judged = judge(report)
        sure = report.get("confirmed") == "kernel" or count(report.get("by_kernel")) > 0
        if judged is None or not (sure or complete):
            continue
        actor, other = part(report, "actor"), part(report, "other")
        by = "" if judged.verdict == "benign" else str(actor.get("symbol"))
        key = (judged.fault, judged.verdict, str(report.get("callback")), by, str(report.get("transition")))
        if key in merged:
            merged[key]["count"] = count(merged[key]["count"]) + count(report.get("count"))
            continue
        merged[key] = {
            "class": judged.fault,
            "verdict": judged.verdict,
            "reason": judged.reason,
            "callback": report.get("callback"),
            "actor": actor.get("symbol"),
            "timer": report.get("timer"),
            "cpus": [actor.get("cpu"), other.get("cpu")],
            "count": report.get("count") if complete or report.get("confirmed") != "state" else report.get("by_kernel"),
            "confirmed": "kernel" if sure else "state",
            "stacks": {"actor": actor.get("stack"), "other": other.get("stack")},
            "transition": report.get("transition"),
            "kind": report.get("kind"),
            "value": report.get("value"),
            "distance_us": report.get("distance_us"),
            "sides": {"actor": _who(actor), "other": _who(other)},
        }
    return sorted(merged.values(), key=lambda row: (ORDER.index(str(row["verdict"])), str(row["class"]), str(row["callback"])))


def _who(side: Data) -> Json:
    return {key: side.get(key) for key in ("cpu", "context", "pid", "comm", "symbol", "t_ns")}
