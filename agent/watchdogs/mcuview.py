"""What is shown of the microcontroller: a row of `status.watchdogs`, and the longer report of `agentctl mcu`. Pure."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from agent.mcu.client import LeaseClient
from agent.mcu.wire import Phase, Reason, Reset, word
from agent.model import Data, Json, State
from agent.watchdogs.feeding import Margins

_STATES: dict[str, State] = {"leased": "ok", "hello": "unknown", "opening": "degraded", "incompatible": "degraded"}


def row(client: LeaseClient, margins: Margins, path: Path | None, now_ns: int) -> Data:
    """Give the row; while leased, its state and reason are those of whoever feeds it."""
    left, p1 = client.lease.left_s(now_ns), margins.margin_p1_s()
    shown: Data = {
        "kind": "mcu",
        "link": client.state,
        "port": str(path) if path else None,
        "phase": client.lease.phase.name.lower() if client.lease.acks else None,
        "margin_s": None if left is None else round(left, 1),
        "margin_p1_s": None if p1 is None else round(p1, 1),
        "feeds": client.lease.acks,
        "firmware": f"{client.hello['firmware']:08x}" if client.hello else None,
        "boots": client.hello.get("boots"),
        "cycles": client.hello.get("cycles"),
        "expiries": client.hello.get("expiries"),
        "errors": _errors(client),
    }
    if client.state != "leased":
        state = _STATES.get(client.state, "critical")
        shown |= {"state": state, "condition": client.state, "reason": client.reason, "remedy": client.remedy}
    return shown


def report(client: LeaseClient, margins: Margins, path: Path | None, now_ns: int) -> Data:
    """Give all that is known. `log_ns` and `cycle.number` tell whether what was asked for has come."""
    shown = {"state": _STATES.get(client.state, "critical"), "reason": client.reason, "remedy": client.remedy}
    bounds = client.ttl.bounds
    more: Data = {
        "ttl_s": client.lease.granted_ms / 1000 if client.lease.acks else None,
        "ttl_bounds_s": [bounds.min_ms / 1000, bounds.max_ms / 1000],
        "refused": client.lease.refused,
        "reset": word(Reset, client.hello.get("reset", 0)),
        "power_reason": word(Reason, client.hello.get("power_reason", 0)),
        "status": cast("Json", dict(client.reports.status)),
        "log": [_entry(entry) for entry in client.reports.log],
        "log_ns": client.reports.log_ns,
        "t_mono_ns": now_ns,
        "cycle": {"state": client.cycle.state, "detail": client.cycle.detail, "number": client.cycle.number},
    }
    return {**shown, **row(client, margins, path, now_ns), **more}


def _errors(client: LeaseClient) -> Data:
    """Give the quality of the link as this end sees it."""
    return {**client.decoder.errors, "strays": client.strays, "repeats": client.exchange.repeats}


def _entry(entry: dict[str, int]) -> Json:
    reason = word(Reason, entry["reason"])
    detail: Json = entry["detail"]
    if reason == "mcu_start":
        detail = word(Reset, entry["detail"])
    return {
        "boot": entry["boot"],
        "t_s": entry["t_ms"] / 1000,
        "reason": reason,
        "detail": detail,
        "phase": word(Phase, entry["phase"]),
        "ttl_s": entry["ttl_ms"] / 1000,
        "seq": entry["seq"],
    }
