"""How loaded objects reach this agentd: pinned by root, or handed over by a loader child of our own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from agent import fallback, probes
from agent.errors import BpfError, NotPermitted, ProbeError
from agent.linux import pins, programs
from agent.linux.attached import Attached
from agent.linux.child import loaded_probes
from agent.linux.loaded import Loaded
from agent.model import Data, State
from agent.ports import Probe


@dataclass(slots=True)
class Running:
    """One enabled probe: attached, or not with the reason why."""

    name: str
    probe: Probe
    attached: Attached | None = None
    place: tuple[Path, int] = (Path(), 0)
    """The folder of its pins and that folder's inode."""
    origin: str = ""
    """`pinned` (by `agentctl probes load`), `loaded` (by our loader child), or what serves instead: a /proc file, `pidfd`."""
    state: State = "unknown"
    reason: str = ""
    remedy: str = ""
    off: bool = False
    """Switched off for good by the CPU budget: attached, but counting nothing."""
    told: int = 0
    """Events that came by what serves instead."""
    bad_records: int = 0
    stats: list[dict[str, int]] = field(default_factory=list)
    """The counters of each hook at the last tick, for the difference; `shown` are those of now."""
    shown: list[dict[str, int]] = field(default_factory=list)
    misses: int | None = None
    """Runs that the kernel skipped because the program was running on that CPU already; None where it does not say."""
    ns_per_event: float | None = None
    cpu_pct: float | None = None
    means: list[float | None] = field(default_factory=list)
    """ns of one run of each hook, as last measured."""
    standing: frozenset[str] = frozenset()
    """What went on at the last tick, and is told already."""
    last: Data = field(default_factory=dict)
    """The snapshot of the last tick, for the difference."""

    @property
    def lost(self) -> int:
        """Events that nobody will see: ring full, or records that could not be read."""
        ring = self.attached.ring if self.attached else None
        return sum(row["lost"] for row in self.shown) + self.bad_records + (ring.torn if ring else 0)

    def fail(self, reason: str, remedy: str) -> None:
        """Keep why it does not run, and what of /proc serves in its place, or would if it were there."""
        self.origin, lacking = fallback.serving(self.name)
        self.state, self.remedy = "degraded", remedy
        self.reason = f"{reason}; {lacking}" if lacking else reason


class Attaching:
    """Fills in `attached`, `origin` and, where there is nothing to attach, the reason and the remedy of each `Running`."""

    def __init__(self, bpffs: Path, cpus: int) -> None:
        """Open nothing yet."""
        self._bpffs = bpffs
        self._cpus = cpus
        self._lock: pins.Lock | None = None
        self.remedy = "as root: agentctl probes load"
        """The line that pins them where this agentd looks."""

    def start(self, running: Mapping[str, Running], config_path: Path, *, may_load: bool) -> None:
        """Open what is pinned; load the rest through a child if this process `may_load`."""
        self.remedy = programs.load_probes(config_path)
        self._quieten(running)
        for run in running.values():
            self.open_pins(run)
        if may_load and any(run.attached is None for run in running.values()):
            self._load(running, config_path)

    def open_pins(self, run: Running) -> None:
        """Open the pins of one probe, if its object is there."""
        path = probes.object_path(run.name)
        run.fail("not loaded, and this user may not load it", self.remedy)
        try:
            folder = pins.folder_of(self._bpffs, run.name, path)
            run.place = pins.place_of(folder)
            if folder in pins.loaded_folders(self._bpffs):
                self._lock = self._lock or pins.Lock(self._bpffs)
                run.attached = Attached.from_pins(folder, self._cpus)
                run.origin = "pinned"
        except NotPermitted as error:
            run.fail(error.reason, error.remedy)
        except OSError:
            run.fail(f"{path} is missing", "make -C bpf, or reinstall gatewarden")
        except BpfError as error:
            run.fail(f"pinned, but cannot be opened: {error}", "run as a member of group gatewarden, kernel >= 5.19")

    def replaced(self, run: Running) -> bool:
        """Whether the pins of `run` have been removed, or made anew, since we looked; not if we loaded it ourselves."""
        ours = run.attached is not None and run.origin == "loaded"
        return not ours and run.place[0] != Path() and pins.place_of(run.place[0]) != run.place

    def _load(self, running: Mapping[str, Running], config_path: Path) -> None:
        try:
            for handed in loaded_probes(config_path):
                run = running[handed.probe]
                if handed.error is not None:
                    run.fail(handed.error.reason, handed.error.remedy)
                elif handed.loaded is not None and run.attached is None:
                    self._take_over(run, handed.loaded)
        except ProbeError as error:
            for run in running.values():
                if run.attached is None:
                    run.fail(error.reason, error.remedy)

    def _take_over(self, run: Running, loaded: Loaded) -> None:
        try:
            run.attached = Attached(loaded.maps, loaded.programs, loaded.links, self._cpus)
        except BpfError as error:
            run.fail(f"loaded, but cannot be read: {error}", "report this kernel")
        else:
            run.origin, run.reason = "loaded", "; ".join(loaded.left_out.values())

    def _quieten(self, running: Mapping[str, Running]) -> None:
        """Switch off what is pinned and not enabled here: it would cost its CPU for nobody."""
        with suppress(NotPermitted):
            for folder in pins.loaded_folders(self._bpffs):
                if folder.name.rpartition("-")[0] not in running:
                    with suppress(BpfError, OSError), closing(Attached.from_pins(folder, self._cpus)) as attached:
                        attached.maps.steer(bytes(8))

    def close(self) -> None:
        """Give up the lock on the pins."""
        if self._lock is not None:
            self._lock.close()
