"""agentd at work: what happens on each tick, and what it answers on the control socket. Everything it needs is handed in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from agent import __version__, atomic, checks, status
from agent.checks import Check
from agent.errors import BadRequest, ProbeError
from agent.linux import procfs, selfstat
from agent.linux.facts import Facts
from agent.linux.selfstat import SelfStat
from agent.model import Data, Json, Sighting, worst
from agent.pipeline import Pipeline
from agent.ports import Clock
from agent.probing import Probing
from agent.status import Footprint, Identity, Reading
from agent.supervision.overseeing import Overseeing
from agent.telemetry import exposition
from agent.telemetry.history import Found

_HEALTH_EVERY_S = 60.0
_EVENTS_MOST = 1000
_PAGE_S = 5.0


class Telemetry(Protocol):
    """What the service needs of the outbox and the publisher."""

    def state(self) -> Data:
        """Give the `mqtt` part of the status."""
        ...

    def metric(self, payload: Data) -> None:
        """Send a metrics sample."""
        ...

    def health(self, payload: Data) -> None:
        """Send a health message."""
        ...

    def recent(self, limit: int, since_wall: float | None, kind: str | None) -> Found:
        """Give recorded events, newest last, in bounded memory."""
        ...


@dataclass(slots=True)
class Service:
    """One per agentd. `tick` is called every metrics period by the loop."""

    identity: Identity
    clock: Clock
    pipeline: Pipeline
    probing: Probing
    overseeing: Overseeing
    telemetry: Telemetry
    budget_pct: float
    status_file: Path
    facts: Callable[[], Facts]
    say: Callable[[str], None]
    """Tells an operator, by the journal."""
    fault: Callable[[str, Exception], None]
    """Reports what failed, by name."""
    meter: Callable[[], SelfStat] = selfstat.read
    pageless: ProbeError | None = None
    """Why the metrics page that the configuration asks for cannot be served."""
    _first: Reading | None = None
    _last: Reading | None = None
    _cost: Footprint | None = None
    _started_ns: int = 0
    _health_ns: int = 0
    _verdict: str = ""
    _unwritten: str = ""
    _known: Facts | None = None
    _page: bytes = b""
    _page_ns: int = 0

    def start(self) -> None:
        """Take the first readings, and write the first status: before it there is nothing to differ from."""
        self._started_ns = self.clock.mono_ns()
        self._first = self._last = self._reading(self.meter())
        self._write_status()

    def tick(self) -> None:
        """Look after the probes and our own cost, let time pass for the detectors, write the status, tell the health.

        A part that fails is reported by its name and costs no other its turn: the watchdogs above all are fed behind it.
        """
        parts: tuple[tuple[str, Callable[[], None]], ...] = (
            ("own cost", self._measure),
            ("workloads", self.overseeing.look),
            ("detectors", self.pipeline.tick),
            ("watchdogs", self.overseeing.tick),
            ("status", self._write_status),
            ("health", self._tell_health),
        )
        for name, part in parts:
            try:
                part()
            except Exception as error:  # noqa: BLE001 - see above
                self.fault(f"tick: {name}", error)

    def _measure(self) -> None:
        """Show the detectors what we cost ourselves."""
        assert self._first is not None
        assert self._last is not None
        stat = self.meter()
        now = self._reading(stat)
        self.probing.tick(now.t_s - self._last.t_s)
        rows = self.probing.rows()
        self._cost = status.footprint(self._first, self._last, now, stat.uss_kib, self.probing.map_kib(), rows)
        self._last = now
        self.pipeline.sample(self._cost_sighting(rows))

    def sample(self) -> None:
        """Send the aggregates since the last sample."""
        reports = self.probing.sample()
        pressure = procfs.pressure_data()
        rows, supervised = self.probing.rows(), self.overseeing.status()
        self.telemetry.metric(status.metrics(reports, pressure, self._cost, rows, supervised))

    def _reading(self, stat: SelfStat) -> Reading:
        return Reading(self.clock.mono_ns() / 1e9, stat.cpu_s, stat.wakeups, stat.flash_bytes)

    def _cost_sighting(self, rows: list[Json]) -> Sighting:
        shares: Data = {str(row["name"]): row["cpu_pct"] for row in rows if isinstance(row, dict)}
        total = self._cost.bpf_cpu_pct if self._cost is not None else None
        data: Data = {"cpu_pct": total, "budget_pct": self.budget_pct, "probes": shares}
        return Sighting(self.clock.mono_ns(), "agent", "agent.cost", "probes", "info", data)

    def birth(self) -> Data:
        """Give what a consumer learns of this agentd when it appears."""
        keys = ("name", "state", "reason")
        probes: Json = [_part(row, keys) for row in self.probing.rows() if isinstance(row, dict)]
        return {"schema": "gatewarden.birth/1", **_whoami(self.identity), "t_wall": self.clock.wall(), "probes": probes}

    def status(self) -> Data:
        """Give the status object (docs/telemetry.md)."""
        uptime = (self.clock.mono_ns() - self._started_ns) / 1e9
        findings = list(self.pipeline.open.values())
        rows, supervised = self.probing.rows(), self.overseeing.status()
        found = status.status(self.identity, uptime, rows, self.telemetry.state(), findings, self._cost, supervised)
        more: Data = {"t_wall": round(self.clock.wall(), 3), "left_out": self.pipeline.recording.left_out}
        if self.pageless:
            page: Data = {"reason": self.pageless.reason, "remedy": self.pageless.remedy}
            more |= {"state": worst([found["state"], "degraded"]), "metrics": page}  # type: ignore[list-item]
        if self._unwritten:
            more |= {"state": worst([found["state"], "degraded"]), "status_file": self._unwritten}  # type: ignore[list-item]
        return {**found, **more}

    def _write_status(self) -> None:
        try:
            atomic.write_json(self.status_file, self.status())
        except OSError as error:
            if not self._unwritten:
                self.say(f"{self.status_file} cannot be written: {error.strerror}")
            self._unwritten = str(error.strerror)
        else:
            self._unwritten = ""

    def _tell_health(self) -> None:
        """Send the verdict of the one check runner when it changes, and once a minute, with the machine's facts read anew."""
        now = self.clock.mono_ns()
        due = self._known is None or now - self._health_ns >= _HEALTH_EVERY_S * 1e9
        if self._known is None or due:
            self._known = self.facts()
        found = checks.run(self._known, self.status())
        verdict = checks.verdict(found)
        if verdict == self._verdict and not due:
            return
        self._verdict, self._health_ns = verdict, now
        bad: list[Json] = [_plain(check) for check in found if check.state != "ok"]
        self.telemetry.health({"schema": "gatewarden.health/1", "state": verdict, "checks": len(found), "not_ok": bad})

    def verbs(self) -> Mapping[str, Callable[[Data], Json]]:
        """Give the control socket's table."""
        return {
            "status": lambda _request: self.status(),
            "probes": lambda _request: self.probing.rows(),
            "snapshot": self._snapshot,
            "events": self._events,
            **self.overseeing.verbs(),
        }

    def _snapshot(self, request: Data) -> Json:
        name = request.get("probe")
        if not isinstance(name, str):
            raise BadRequest("snapshot: probe must be a string")
        return {**self.probing.snapshot(name), **self.probing.attachment(name), "t_mono_ns": self.clock.mono_ns()}

    def _events(self, request: Data) -> Json:
        limit, since, kind = request.get("limit", 100), request.get("since_wall"), request.get("kind")
        if not isinstance(limit, int) or not isinstance(since, int | float | None) or not isinstance(kind, str | None):
            raise BadRequest("events: limit is a whole number, since_wall seconds, kind a string")
        found = self.telemetry.recent(max(1, min(limit, _EVENTS_MOST)), since, kind)
        return {
            "events": list[Json](found.records),
            "cut": found.cut or len(found.records) == _EVENTS_MOST < limit,
        }

    def page(self) -> tuple[str, bytes]:
        """Give the OpenMetrics page: cumulative aggregates, as a scraper wants them. Raises Unsupported.

        Rendering costs the loop some time, so a page serves all who ask within `_PAGE_S`.
        """
        now = self.clock.mono_ns()
        if not self._page or now - self._page_ns > _PAGE_S * 1e9:
            self._page, self._page_ns = self._rendered(), now
        return exposition.CONTENT_TYPE, self._page

    def _rendered(self) -> bytes:
        sections = {name: status.largest(self.probing.snapshot(name)) for name in self.probing.attached()}
        sections["mqtt"] = self.telemetry.state()
        sections["agent"] = {} if self._cost is None else dict(asdict(self._cost))
        sections["probe"] = {"probes": self.probing.rows()}
        return exposition.render(sections | status.quantities(self.overseeing.status()))


def _part(row: Data, keys: tuple[str, ...]) -> Json:
    return {key: row[key] for key in keys}


def _whoami(identity: Identity) -> Data:
    known = {"site": identity.site, "gateway": identity.gateway, "boot_id": identity.boot_id, "tier": identity.tier}
    return {"version": __version__, **known}


def _plain(check: Check) -> Data:
    return {"group": check.group, "name": check.name, "state": check.state, "reason": check.reason, "remedy": check.remedy}
