"""Checks over what agentd says of itself (`status --json`): its probes, its findings, its broker."""

from __future__ import annotations

from collections.abc import Iterator

from agent import narrow
from agent.checks._base import Check
from agent.linux.facts import Facts
from agent.model import Data
from agent.narrow import number, part, rows

LOST_SHARE = 0.01
OLDEST_BACKLOG_S = 3600
RECENT_S = 86_400  # a drop degrades for so long
SHOWN = 20  # findings that get a check of their own


def probes(status: Data, facts: Facts) -> Iterator[Check]:
    """Yield whether agentd runs, then each probe and each open finding; of a dead agentd nothing more is known."""
    yield _agentd(status, facts.start)
    if not status or "stale_s" in status:
        return
    for row in rows(status, "probes"):
        yield _probe(row)
    findings = rows(status, "findings")
    for row in findings[:SHOWN]:
        name = f"{row.get('detector')} {row.get('subject')}"
        reason, remedy = str(row.get("summary") or ""), f"{facts.agentctl} events"
        yield Check("probes", name, narrow.state(row.get("state")), reason, remedy)
    if not findings:
        yield Check("probes", "findings", "ok", "none open")


def _agentd(status: Data, start: str) -> Check:
    if not status:
        return Check("probes", "agentd", "unknown", "agentd has left no status", start)
    stale = status.get("stale_s")
    if isinstance(stale, int | float):
        return Check("probes", "agentd", "critical", f"agentd is not running; its last status is {stale:.0f} s old", start)
    return Check("probes", "agentd", "ok", f"version {status.get('version')}, tier {status.get('tier')}")


def _probe(row: Data) -> Check:
    name, reason, remedy = (str(row.get(key) or "") for key in ("name", "reason", "remedy"))
    state = narrow.state(row.get("state"))
    events, lost = number(row.get("events")), number(row.get("lost"))
    if state == "ok" and lost > LOST_SHARE * max(events, 1):
        reason, remedy = f"{lost:.0f} of {events:.0f} events lost", f"raise the budgets of [probes.{name}]"
        return Check("probes", name, "degraded", reason, remedy)
    said = reason or f"{events:.0f} events, {lost:.0f} lost"
    return Check("probes", name, state, said, "" if state == "ok" else remedy or "agentctl probes")


def telemetry(status: Data, facts: Facts) -> Iterator[Check]:
    """Yield the state of the connection and of the outbox, and of the metrics page if it cannot be served."""
    mqtt = status.get("mqtt")
    if not isinstance(mqtt, dict) or "stale_s" in status:
        yield Check("telemetry", "mqtt", "unknown", "agentd does not say", facts.start)
        return
    yield _broker(str(mqtt.get("state") or "unknown"), mqtt, facts)
    yield _outbox(mqtt, facts)
    page = part(status, "metrics")
    if page:
        reason, remedy = (str(page.get(key) or "") for key in ("reason", "remedy"))
        yield Check("telemetry", "metrics", "degraded", reason, remedy)


def _outbox(mqtt: Data, facts: Facts) -> Check:
    """Judge the store: by what was dropped lately. What was dropped long ago, or before this boot, is only told."""
    dropped, drop_s = number(mqtt.get("dropped")), mqtt.get("dropped_s")
    if error := mqtt.get("store_error"):
        journal = "journalctl -u gatewarden" if facts.systemd else "what agentd said"
        return Check("telemetry", "outbox", "degraded", str(error), f"{journal}, and the disk of state_dir")
    if isinstance(drop_s, int | float) and drop_s < RECENT_S:
        reason = f"{dropped:.0f} records dropped in all, the newest {drop_s / 3600:.1f} h ago"
        return Check("telemetry", "outbox", "degraded", reason, "raise [outbox] bytes, or mend the broker")
    told = f"{dropped:.0f} dropped, none lately" if dropped else "none dropped"
    return Check("telemetry", "outbox", "ok", f"{number(mqtt.get('backlog_bytes')):.0f} bytes wait, {told}")


def _broker(state: str, mqtt: Data, facts: Facts) -> Check:
    """Judge the connection; being away for less than an hour is what the outbox is for."""
    if state in {"connected", "off"}:
        return Check("telemetry", "mqtt", "ok", state)
    if state == "unknown":
        return Check("telemetry", "mqtt", "unknown", "agentd does not say", f"{facts.agentctl} status")
    waiting = number(mqtt.get("oldest_s"))
    reason = f"{state}; the oldest record waits for {waiting:.0f} s"
    late = waiting > OLDEST_BACKLOG_S
    return Check("telemetry", "mqtt", "degraded" if late else "ok", reason, "check [mqtt] and the network" if late else "")
