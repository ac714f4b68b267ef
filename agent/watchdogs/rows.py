"""The rows of `status.watchdogs`: each watchdog of the machine, whoever feeds it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from agent.linux.watchdog import KernelWatchdog
from agent.linux.watchdogfacts import WatchdogFacts
from agent.model import Data, Json
from agent.watchdogs.feeding import Feeder, Margins


@dataclass(slots=True)
class Held:
    """A feeder, how near it came, and what else its row says."""

    feeder: Feeder
    margins: Margins
    row: Callable[[], Data]
    misses: int = 0


def held(one: Held, now_ns: int, missing: tuple[str, ...], last_rung: str | None) -> Json:
    """Give the row of one that agentd feeds; `missing` are those for whom it does not at the moment."""
    p1 = one.margins.margin_p1_s()
    return {
        "name": one.feeder.name,
        "state": "critical" if missing else "ok",
        "condition": "withheld" if missing else "armed",
        "owner": "agentd",
        "ttl_s": one.feeder.ttl_s,
        "margin_s": round(one.margins.margin_s(now_ns), 1),
        "margin_p1_s": None if p1 is None else round(p1, 1),
        "misses": one.misses,
        "feeds": one.margins.feeds,
        "last_rung": last_rung,
        "reason": f"not fed: {', '.join(missing)} did not report" if missing else "",
        "remedy": "agentctl workloads" if missing else "",
        **one.row(),
    }


def ours(found: KernelWatchdog) -> Data:
    """Give what the row of a kernel watchdog of ours says besides."""
    return _kernel(found.facts, found.pretimeout_s, found.evidence) | {"identity": found.identity}


def unheld(facts: WatchdogFacts, condition: str, reason: str, remedy: str = "", owner: str = "") -> Json:
    """Give the row of a watchdog that this agent does not feed; what is not known of it is None."""
    unknown: Data = dict.fromkeys(("margin_p1_s", "misses", "feeds", "last_rung"))
    return {
        "name": facts.name,
        "state": {"delegated": "ok", "off": "unknown"}.get(condition, "degraded"),
        "condition": condition,
        "owner": owner or None,
        "ttl_s": facts.timeout_s,
        "margin_s": facts.timeleft_s,
        **unknown,
        "reason": reason,
        "remedy": remedy,
        **_kernel(facts, facts.pretimeout_s, "none"),
    }


def _kernel(facts: WatchdogFacts, pretimeout_s: int | None, evidence: str) -> Data:
    return {
        "kind": "kernel",
        "identity": facts.identity,
        "hardware": facts.hardware,
        "pretimeout_s": pretimeout_s,
        "evidence": evidence,
        "nowayout": facts.nowayout,
    }
