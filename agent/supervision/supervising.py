"""The workloads as agentd sees them: the link to their keeper, what it tells, and what each tick adds to it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.config import Config, Workload
from agent.linux import procfs, threads
from agent.linux.keeperclient import KeeperClient
from agent.linux.loop import EpollLoop
from agent.model import Data, Json, Severity, Sighting
from agent.pipeline import Pipeline
from agent.ports import Clock
from agent.probes import keeper_link

_SOURCE = "agent"


@dataclass(slots=True)
class Row:
    """One workload as last told. `pid` is None while it does not run, or where nobody told it."""

    workload: Workload
    state: str = "unknown"
    pid: int | None = None
    reason: str = ""
    restarts: int = 0
    ready: bool = False
    said: str = ""
    last_recovery_ms: float | None = None


class View(Protocol):
    """What the thinking parts tell of one workload, for its row."""

    def __call__(self, name: str, now_ns: int) -> Data:
        """Give some of the keys of a row."""
        ...


class Supervising:
    """Owns the link to the keeper; the actions give their orders through `keeper`."""

    def __init__(
        self,
        settings: Config,
        loop: EpollLoop,
        clock: Clock,
        pipeline: Pipeline,
        cursor: Callable[[str], int],
        say: Callable[[str], None],
    ) -> None:
        """Connect to nothing yet. `cursor` gives the last committed message number by its key; `say` tells an operator."""
        self._clock = clock
        self._pipeline = pipeline
        self._cursor = cursor
        self._say = say
        self.rows = {one.name: Row(one) for one in settings.workload}
        self.views: Sequence[View] = ()
        self.beaten: Callable[[str, int], None] = _nobody
        """Hears of each beat, with its time."""
        self.born: Callable[[str, int], None] = _nobody
        """Hears of each main process, with its pid."""
        self.resumed: Callable[[str, str, bool], None] = _nothing
        """Hears of each workload, its state, and whether the keeper holds it, as found when the link comes up."""
        self._keeper_id = ""
        self._told = 0
        self._ceiling_s: float | None = None
        self.bad_messages = 0
        """What could not be read: whole messages, or rows of them."""
        path = settings.paths.keeper_socket
        self.keeper = KeeperClient(loop, path, self._heard, self._since, self._greeting, self._changed)

    def start(self, ceiling_s: float | None) -> None:
        """Tell the detectors what is configured, and connect if a workload is the keeper's.

        No deadline may be longer than `ceiling_s`: that is when the hardware would act.
        """
        self._show_known(ceiling_s)
        if any(row.workload.command for row in self.rows.values()):
            self.keeper.start()

    def below(self, ceiling_s: float | None) -> None:
        """Tell the detectors if the hardware acts at another time than it did: a watchdog was taken, or lost."""
        if ceiling_s != self._ceiling_s:
            self._show_known(ceiling_s)

    def _show_known(self, ceiling_s: float | None) -> None:
        self._ceiling_s = ceiling_s
        for row in self.rows.values():
            known = {**_known(row.workload), "ceiling_s": ceiling_s}
            self._pipeline.sample(self._sighting("workload.known", row.workload.name, known))

    def close(self) -> None:
        """End the link."""
        self.keeper.close()

    def look(self) -> None:
        """Show the detectors how much the machine, and each workload, was held up."""
        if not self.rows:
            return
        self.keeper.ping(self._clock.mono_ns())
        self._pipeline.sample(self._sighting("machine.pressure", "psi", _pressure()))
        for name, row in self.rows.items():
            waited = threads.waits(row.pid) if row.pid is not None else None
            if waited is not None:
                data: Data = {"wait_us_total": waited[0], "run_us_total": waited[1]}
                self._pipeline.sample(self._sighting("workload.starved", name, data))

    def threads(self, name: str) -> Json:
        """Read where the threads of a workload stand. From any thread."""
        pid = self.rows[name].pid
        return f"no process of {name} is known" if pid is None else threads.read(pid)

    def told(self, found: Sequence[Sighting]) -> None:
        """Take events of workloads whose parent is another than the keeper."""
        for sighting in found:
            self._note(sighting)
        self._pipeline.take(found)

    def shown(self, sighting: Sighting) -> None:
        """Take a sample of a workload that was seen from outside."""
        self._note(sighting)
        self._pipeline.sample(sighting)

    def unknown(self, name: str, why: str) -> None:
        """Hear that nobody tells how a workload is."""
        row = self.rows[name]
        row.state, row.reason = "unknown", why

    def status(self) -> dict[str, Data]:
        """Give the rows of the `workloads` part of the status, by name."""
        now = self._clock.mono_ns()
        return {name: self._row(row, now) for name, row in self.rows.items()}

    def _row(self, row: Row, now_ns: int) -> Data:
        found: Data = dict.fromkeys(("deadline_s", "margin_s", "margin_p1_s"))
        found |= {"misses": 0, "last_rung": None, "next_rung": None, "last_recovery_ms": None, "hold_until": None}
        for view in self.views:
            found |= view(row.workload.name, now_ns)
        own: Data = {"name": row.workload.name, "state": row.state, "pid": row.pid, "restarts": row.restarts}
        work = row.workload
        parent = "keeper" if work.command else "unit" if work.unit else "container"
        reason = row.reason or (self._unheard() if work.command and row.state == "unknown" else "")
        more: Data = {"parent": parent, "required": work.required, "reason": reason, "ready": row.ready, "said": row.said}
        proven: Data = {"proven": bool(found.get("proven")) or work.probe is not None}
        return {**own, **found, **more, **proven}

    def _unheard(self) -> str:
        return self.keeper.why or (
            "the keeper knows no such workload: have it reload agent.toml" if self.keeper.connected else ""
        )

    def _since(self, keeper: str) -> int:
        self._keeper_id = keeper
        self._told = self._cursor(self._key())
        return self._told

    def _key(self) -> str:
        return f"{self._pipeline.boot_id}/keeper/{self._keeper_id}"[:128]

    def _greeting(self) -> Iterable[Data]:
        for row in self.rows.values():
            limits = row.workload.restart
            if row.workload.command:
                yield {"type": "budget", "name": row.workload.name, "burst": limits.burst, "window_s": limits.window_s}

    def _changed(self, why: str) -> None:
        self._say(f"keeper: {why}" if why else "keeper: connected")
        if not why:
            return  # its hello tells the rest
        for row in self.rows.values():
            if row.workload.command:
                row.state, row.reason = "unknown", f"the keeper does not answer: {why}"
        self._pipeline.take([self._link({"up": False}, bad=True)])

    def _hello(self, message: Data) -> None:
        lost = message.get("lost")
        data: Data = {"up": True, "lost": lost if isinstance(lost, int) else 0, "version": str(message.get("version"))[:32]}
        self._pipeline.take([self._link(data, bad=bool(lost))])

    def _heard(self, message: Data) -> None:
        if message.get("type") == "hello":
            self._hello(message)
            return
        if message.get("type") == "pong":
            until: Data = {"until_ns": message["asked_ns"]}
            self._pipeline.sample(Sighting(self._clock.mono_ns(), keeper_link.NAME, "workload.told", "keeper", "info", until))
            return
        found = self._read(message)
        if found is None:
            return
        number = message.get("seq")
        if isinstance(number, int) and number > self._told:
            self._told = number
            self.take(found, {self._key(): number})
        else:  # told before, or never worth a record
            self.show(found)
        if message.get("now") is True and found:
            self.resumed(found[0].subject, str(message.get("state")), message.get("held") is True)

    def _read(self, message: Data) -> list[Sighting] | None:
        """Give what it tells of our workloads; what cannot be read of it is counted. None: nothing of it can."""
        found, good = list[Sighting](), False
        for part in keeper_link.singly(message):
            try:
                found += [one for one in keeper_link.sightings(part) if one.subject in self.rows]
                good = True
            except ValueError as error:
                self.bad_messages += 1
                self._pipeline.fault("keeper link", error)
        return found if good else None

    def take(self, found: Sequence[Sighting], cursors: Mapping[str, int] | None = None) -> None:
        """Take events about workloads, whoever tells them: the rows follow, and they are recorded."""
        for sighting in found:
            self._note(sighting)
        self._pipeline.take(found, cursors)

    def show(self, found: Iterable[Sighting]) -> None:
        """Take what repeats (beats, checks, a state that is known): the rows follow, and only the detectors see it."""
        for sighting in found:
            self._note(sighting)
            self._pipeline.sample(sighting)

    def _note(self, sighting: Sighting) -> None:
        row, data = self.rows.get(sighting.subject), sighting.data
        if row is None:
            return
        if sighting.kind == "workload.state":
            row.state, row.reason, row.said = str(data["state"]), str(data["reason"]), str(data["status"])
            pid, restarts = data["pid"], data["restarts"]
            row.pid = pid if isinstance(pid, int) else None
            if row.pid is not None:
                self.born(sighting.subject, row.pid)
            row.restarts = restarts if isinstance(restarts, int) else 0
            row.ready = data["ready"] is True
        elif sighting.kind == "workload.beats" and data["last_ns"]:
            self.beaten(sighting.subject, int(str(data["last_ns"])))

    def _link(self, data: Data, *, bad: bool) -> Sighting:
        severity: Severity = "warning" if bad else "info"
        return Sighting(self._clock.mono_ns(), keeper_link.NAME, "workload.link", "keeper", severity, data)

    def _sighting(self, kind: str, subject: str, data: Data) -> Sighting:
        return Sighting(self._clock.mono_ns(), _SOURCE, kind, subject, "info", data)


def _nobody(_name: str, _number: int) -> None:
    """Do nothing with it."""


def _nothing(_name: str, _state: str, _held: bool) -> None:  # noqa: FBT001 - a fact
    """Do nothing with it."""


def _known(workload: Workload) -> Data:
    counted = workload.probe is not None and workload.probe.counts  # other checks are answers, no beats
    beats = workload.notify == "watchdog" or counted
    liveness = "watchdog" if beats else workload.notify
    return {"deadline_s": workload.deadline_s, "liveness": liveness}


def _pressure() -> Data:
    found = procfs.read_pressure()
    data: Data = {}
    for resource, one in found.items():
        for name in ("some", "full"):
            stall = getattr(one, name, None)
            if stall is not None:
                data[f"{resource}_{name}_us_total"] = stall.total_us
    return data
