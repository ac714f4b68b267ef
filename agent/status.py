"""The status object of `agentctl status --json`, put together from what the parts say. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from agent import __version__, checks
from agent.model import Data, Finding, Json
from agent.narrow import rows

SCHEMA = "gatewarden.status/1"
SCHEMA_METRICS = "gatewarden.metrics/1"
_TOP = 10
_SERIES = 50  # of one table, on the OpenMetrics page
_DAY_S = 86_400.0
_PLOTTED = ("state", "restarts", "deadline_s", "margin_s", "margin_p1_s", "last_recovery_ms", "ttl_s", "feeds")
# Flash writes are told as a daily rate only once there is enough of a day to tell from.
_FLASH_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class Identity:
    """Who speaks: constant while agentd runs."""

    site: str
    gateway: str
    boot_id: str
    tier: str
    tier_reason: str
    pid: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """What agentd costs. None is unknown, never 0."""

    uss_kib: int | None
    cpu_pct: float | None
    """Of one core, over the last interval."""
    wakeups_per_s: float | None
    map_kib: int | None
    flash_bytes_per_day: int | None
    bpf_cpu_pct: float | None
    """Of all CPUs, over the last interval; None when a probe's cost is not known."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Cumulative self-measurements at one time."""

    t_s: float
    cpu_s: float | None
    wakeups: int
    flash_bytes: int | None


def footprint(
    first: Reading, last: Reading, now: Reading, uss_kib: int | None, map_kib: int, probes: Sequence[Json]
) -> Footprint:
    """Give the footprint of the interval `last`..`now`; flash writes over the whole run since `first`."""
    elapsed = now.t_s - last.t_s
    return Footprint(
        uss_kib=uss_kib,
        cpu_pct=_cpu_share(last, now),
        wakeups_per_s=round((now.wakeups - last.wakeups) / elapsed, 2) if elapsed > 0 else None,
        map_kib=map_kib,
        flash_bytes_per_day=_per_day(first, now),
        bpf_cpu_pct=_bpf_share(probes),
    )


def _cpu_share(last: Reading, now: Reading) -> float | None:
    elapsed = now.t_s - last.t_s
    known = now.cpu_s is not None and last.cpu_s is not None and elapsed > 0
    return round(100 * ((now.cpu_s or 0) - (last.cpu_s or 0)) / elapsed, 3) if known else None


def _per_day(first: Reading, now: Reading) -> int | None:
    elapsed = now.t_s - first.t_s
    if first.flash_bytes is None or now.flash_bytes is None or elapsed < _FLASH_AFTER_S:
        return None
    return round((now.flash_bytes - first.flash_bytes) / elapsed * _DAY_S)


def _bpf_share(probes: Sequence[Json]) -> float | None:
    shares = [row.get("cpu_pct") for row in probes if isinstance(row, dict) and row.get("origin") in {"pinned", "loaded"}]
    known = [share for share in shares if isinstance(share, int | float)]
    return round(sum(known), 4) if known and len(known) == len(shares) else None


def status(
    identity: Identity,
    uptime_s: float,
    probes: Sequence[Json],
    mqtt: Data,
    findings: Sequence[Finding],
    cost: Footprint | None,
    supervised: Data | None = None,
) -> Data:
    """Give the whole object, every key of the contract present; its state is the verdict of the live checks.

    `supervised` holds the parts `workloads`, `watchdogs` and `last_reset`, as far as there are any.
    """
    found = _without_state(identity, uptime_s, probes, mqtt, findings, cost) | (supervised or {})
    return {"schema": SCHEMA, "state": checks.live_verdict(found), **found}


def _without_state(
    identity: Identity, uptime_s: float, probes: Sequence[Json], mqtt: Data, findings: Sequence[Finding], cost: Footprint | None
) -> Data:
    return {
        "gateway": identity.gateway,
        "site": identity.site,
        "version": __version__,
        "boot_id": identity.boot_id,
        "pid": identity.pid,
        "uptime_s": round(uptime_s, 1),
        "tier": identity.tier,
        "tier_reason": identity.tier_reason,
        "last_reset": {"cause": "unknown", "confidence": "none"},
        "probes": list(probes),
        "mqtt": mqtt,
        "workloads": [],
        "streams": [],
        "gpus": [],
        "watchdogs": [],
        "findings": [_finding(finding) for finding in findings],
        "agent": {} if cost is None else dict(asdict(cost)),
    }


def _finding(finding: Finding) -> Data:
    return {
        "detector": finding.detector,
        "subject": finding.subject,
        "state": finding.state,
        "summary": finding.summary,
        "evidence": list(finding.evidence),
    }


def quantities(supervised: Data) -> dict[str, Data]:
    """Give what can be plotted of workloads and watchdogs, by name: margins, restarts, misses."""
    return {
        part: {str(row.get("name")): _plotted(row) for row in rows(supervised, f"{part}s")} for part in ("workload", "watchdog")
    }


def _plotted(row: Data) -> Data:
    known = {key: row[key] for key in _PLOTTED if row.get(key) is not None}
    return {**known, "missed": row.get("misses")}


def metrics(
    reports: Data, pressure: Data, footprint: Footprint | None, probes: Sequence[Json], supervised: Data | None = None
) -> Data:
    """Give one metrics sample: every probe's interval, cut to what a consumer plots, with PSI and our own cost.

    Of workloads and watchdogs, if there are any, the `quantities`.
    """
    parts = {name: part for name, part in quantities(supervised or {}).items() if part}
    return {
        "schema": SCHEMA_METRICS,
        **{name: trimmed(report) for name, report in reports.items()},
        **parts,
        "pressure": pressure,
        "probes": [
            {key: row.get(key) for key in ("name", "state", "events", "lost", "ns_per_event", "cpu_pct")}
            for row in probes
            if isinstance(row, dict)
        ],
        "agent": {} if footprint is None else dict(asdict(footprint)),
    }


def largest(snapshot: Data) -> Data:
    """Cut each table of a cumulative snapshot to the `_SERIES` rows that counted most, so that a scraper's series stay few."""
    return {key: _top(value) if isinstance(value, dict) else value for key, value in snapshot.items()}


def _top(table: Data) -> Json:
    if len(table) <= _SERIES or not all(isinstance(row, dict) for row in table.values()):
        return table
    ranked = sorted(table.items(), key=lambda item: -_counted(item[1]))
    return dict(ranked[:_SERIES])


def _counted(row: Json) -> int:
    """Give how many values the histograms of a row hold."""
    parts = row.values() if isinstance(row, dict) else ()
    spreads = [part["buckets"] for part in parts if isinstance(part, dict) and "buckets" in part]
    return sum(n for buckets in spreads if isinstance(buckets, dict) for n in buckets.values() if isinstance(n, int))


def trimmed(report: Json) -> Json:
    """Cut every list of a report to its first `_TOP` rows and leave raw buckets out: they stay readable at the box."""
    if isinstance(report, dict):
        return {key: trimmed(value) for key, value in report.items() if not key.endswith("buckets")}
    if isinstance(report, list):
        return [trimmed(item) for item in report[:_TOP]]
    return report
