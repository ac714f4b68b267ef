"""The probes that run in this agentd: their rings, their aggregates, their own cost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from agent import fallback, probes
from agent.attaching import Attaching, Running
from agent.config import Config
from agent.errors import GatewardenError, LoadFailed
from agent.linux import procfs
from agent.linux.attached import Attached
from agent.linux.bpf import online_cpus, possible_cpus
from agent.model import Data, Json, Sighting
from agent.owncost import cost, means
from agent.pipeline import Pipeline
from agent.ports import Loop, Standing

_BATCH, _BATCHES = 256, 8  # records in one commit, and commits on their way: as many as the store holds in memory


class Probing:
    """Owns the attached objects; turns ring records into sightings for the pipeline, one batch at a time for each probe."""

    def __init__(
        self,
        settings: Config,
        loop: Loop,
        pipeline: Pipeline,
        cursor: Callable[[str], int],
        label: Callable[[Sighting], Sighting],
    ) -> None:
        """Load nothing yet. `cursor` gives the last committed position of a ring, by its key; `label` completes sightings."""
        self._label = label
        self._settings = settings
        self._loop = loop
        self._pipeline = pipeline
        self._cursor = cursor
        self._cpus = possible_cpus()
        self._attaching = Attaching(settings.paths.bpffs_dir, self._cpus)
        self.running = {name: Running(name, probes.load(name)) for name in settings.probes.enabled}

    def start(self, config_path: Path, *, may_load: bool) -> None:
        """Attach what is pinned; load the rest through a child if this process `may_load`; steer and watch all of it."""
        self._attaching.start(self.running, config_path, may_load=may_load)
        for run in self.running.values():
            self._watch(run)

    def _watch(self, run: Running) -> None:
        if run.attached is None:
            return
        try:
            run.attached.maps.steer(run.probe.steer(self._settings.probes.options[run.name], run.attached.maps))
            run.last = run.probe.snapshot(run.attached.maps)
            run.stats = run.attached.maps.stats(len(run.probe.HOOKS))
            run.means = means([], [], run.stats)
        except (GatewardenError, ValueError, KeyError) as error:  # KeyError: a map is missing among the pins
            run.attached.close()
            run.attached = None
            run.fail(f"cannot be steered: {error}", f"{self._attaching.remedy}, after probes unload")
            return
        run.state, run.remedy = "ok", ""
        if run.origin == "pinned":
            run.reason = ""
        if run.attached.ring is not None:
            run.attached.ring.skip_to(self._cursor(self._key(run)))
            self._listen(run)

    def _key(self, run: Running) -> str:
        assert run.attached is not None
        assert run.attached.ring is not None
        return f"{self._pipeline.boot_id}/{run.name}/{run.attached.ring.id}"

    def _listen(self, run: Running) -> None:
        if run.attached is not None and run.attached.ring is not None:
            self._loop.on_readable(run.attached.ring.fd, lambda: self._drain(run), f"ring {run.name}")

    def _drain(self, run: Running) -> None:
        """Take one batch; the ring is listened to again, and its space given back, once the batch is durable."""
        assert run.attached is not None
        assert run.attached.ring is not None
        attached, ring = run.attached, run.attached.ring
        self._loop.forget(ring.fd)  # while a batch is not durable its space is not given back, and the fd stays readable
        waiting = 0

        def durable(position: int) -> None:
            nonlocal waiting
            waiting -= 1
            if run.attached is attached:  # and not let go of meanwhile
                ring.advance(position)
                if not waiting:
                    self._listen(run)

        batches = [batch for _ in range(_BATCHES) if (batch := (ring.read(_BATCH), ring.position))[0]]
        waiting = len(batches)
        for records, position in batches:
            sightings = [found for _position, record in records if (found := self._decode(run, record)) is not None]
            self._pipeline.take(sightings, {self._key(run): position}, partial(durable, position))
        if not batches:
            self._listen(run)

    def _decode(self, run: Running, record: bytes) -> Sighting | None:
        try:
            return self._label(run.probe.sighting(memoryview(record)))
        except ValueError:
            run.bad_records += 1
        except Exception as error:  # noqa: BLE001 - probes are an open set: a fault of one must not deafen its ring
            run.bad_records += 1
            self._pipeline.fault(f"probe {run.name}", error)
        return None

    def snapshot(self, name: str) -> Data:
        """Give the cumulative snapshot of one probe. Raises LoadFailed if it does not run, with the remedy."""
        run = self.running.get(name)
        if run is None:
            raise LoadFailed(f"probe {name} is not enabled", f"add it to [probes] enabled; known: {', '.join(probes.names())}")
        if run.attached is None or run.off:
            instead = f"; {run.origin} serves instead, in the metrics alone" if run.attached is None and run.origin else ""
            raise LoadFailed(f"probe {name} is off: {run.reason}{instead}", run.remedy)
        return {**run.probe.snapshot(run.attached.maps), "lost": run.lost}

    def tick(self, elapsed_s: float) -> None:
        """Read every probe's own cost over the last `elapsed_s`; a pinned one that was replaced meanwhile is opened anew."""
        for run in self.running.values():
            if self._attaching.replaced(run):
                self._reopen(run)
            if run.attached is not None:
                self._cost(run, run.attached, elapsed_s)
                self._stand(run, run.attached)

    def _stand(self, run: Running, attached: Attached) -> None:
        """Tell what goes on without an end, once; as long as it does, remind the detectors of it at each tick."""
        look = cast("Standing | None", getattr(run.probe, "standing", None))
        if look is None or run.off:
            return
        try:
            found = look(attached.maps, procfs.read_task)
        except Exception as error:  # noqa: BLE001 - probes are an open set
            self._pipeline.fault(f"probe {run.name}", error)
            return
        for key, sighting in found.items():
            if key in run.standing:
                self._pipeline.sample(self._label(sighting))
            else:
                self._pipeline.take([self._label(sighting)])
        run.standing = frozenset(found)

    def _reopen(self, run: Running) -> None:
        """Follow `agentctl probes unload` and `load`: what we hold is detached, and counts nothing any more."""
        self._let_go(run)
        run.stats, run.shown, run.last, run.standing = [], [], {}, frozenset()
        self._attaching.open_pins(run)
        self._watch(run)
        if run.attached is None and not run.place[1]:
            run.fail("its pins were removed while agentd ran", self._attaching.remedy)

    def sample(self) -> Data:
        """Read all aggregates; gives `{probe: report since the last sample}`."""
        reports: Data = {}
        for run in self.running.values():
            if run.attached is None:
                self._fall_back(run, reports)
            if run.attached is None or run.off:
                continue
            fresh = run.probe.snapshot(run.attached.maps)
            reports[run.name] = run.probe.report(run.last, fresh)
            run.last = fresh
        return reports

    def _fall_back(self, run: Running, reports: Data) -> None:
        fresh = fallback.read(run.name)
        found = fallback.report(run.name, run.last or None, fresh)
        run.last = fresh or {}
        if found is not None:
            reports[run.name] = found
            run.origin = str(found["source"])

    def _cost(self, run: Running, attached: Attached, elapsed_s: float) -> None:
        now = attached.maps.stats(len(run.probe.HOOKS))
        run.means = means(run.means, run.stats, now)
        run.ns_per_event, run.cpu_pct = cost(run.means, run.stats, now, elapsed_s * online_cpus())
        run.stats = now
        run.misses = attached.misses()

    def off(self, name: str) -> bool:
        """Clear the enabled flag of a probe; gives whether it was running."""
        run = self.running.get(name)
        if run is None or run.attached is None:
            return False
        run.attached.maps.steer(bytes(8))
        run.off = True
        run.state, run.reason = "degraded", "switched off: the probes cost more CPU than [budget] allows"
        run.remedy = "raise [budget] cpu_pct, or leave the probe out of [probes] enabled; then restart agentd"
        return True

    def attachment(self, name: str) -> Data:
        """Give how much the kernel let probe `name` miss, and by which programs it looks."""
        run = self.running.get(name)
        if run is None or run.attached is None:
            return {}
        return {"misses": run.attached.misses(), "programs": list[Json](run.attached.programs())}

    def fallen_back(self, name: str) -> bool:
        """Whether probe `name` is enabled and does not run."""
        return name in self.running and self.running[name].attached is None

    def serve_instead(self, name: str, origin: str) -> None:
        """Show that `origin` tells what probe `name` would."""
        self.running[name].origin = origin

    def count_instead(self, name: str) -> None:
        """Count an event that came by what serves instead of probe `name`."""
        self.running[name].told += 1

    def attached(self) -> list[str]:
        """Give the names of the probes that run."""
        return [run.name for run in self.running.values() if run.attached is not None and not run.off]

    def all_off(self) -> str:
        """Give why no probe runs, in the words of the first; empty if one does."""
        off = [run.reason for run in self.running.values() if run.attached is None]
        return off[0] if off and len(off) == len(self.running) else ""

    def map_kib(self) -> int:
        """Give the kernel memory of all maps in KiB."""
        return sum(run.attached.map_bytes() for run in self.running.values() if run.attached is not None) // 1024

    def rows(self) -> list[Json]:
        """Give the `probes` part of the status."""
        for run in self.running.values():
            if run.attached is not None:
                run.shown = run.attached.maps.stats(len(run.probe.HOOKS))
        return [_row(run) for run in self.running.values()]

    def fresh(self, name: str) -> Data:
        """Give the report of one probe since the last sample. Raises LoadFailed. From any thread."""
        run = self.running.get(name)
        if run is None or run.attached is None:
            raise LoadFailed(f"probe {name} does not run")
        return run.probe.report(run.last, run.probe.snapshot(run.attached.maps))

    def close(self) -> None:
        """Let go of everything; unpinned probes are detached, pinned ones go on."""
        for run in self.running.values():
            self._let_go(run)
        self._attaching.close()

    def _let_go(self, run: Running) -> None:
        if run.attached is not None:
            attached, run.attached = run.attached, None
            if attached.ring is not None:
                self._loop.forget(attached.ring.fd)
            attached.close()


def _row(run: Running) -> Data:
    return {
        "name": run.name,
        "state": run.state,
        "reason": run.reason,
        "remedy": run.remedy,
        "origin": run.origin,
        "events": sum(row["runs"] for row in run.shown) + run.told,
        "lost": run.lost,
        "missed": sum(row["missed"] for row in run.shown),
        "recursion_misses": run.misses,
        "suppressed": sum(row["suppressed"] for row in run.shown),
        "ns_per_event": None if run.ns_per_event is None else round(run.ns_per_event, 1),
        "cpu_pct": None if run.cpu_pct is None else round(run.cpu_pct, 4),
    }
