"""Entry point of the loader process: loads the enabled probes' objects, then pins them or hands them to agentd, and exits.

    python -m agent.loader --config FILE --give FD     agentd's child; FD is a unix seqpacket socket (agent/linux/handover.py)
    agentctl probes load | unload                      pins: `load` and `unload` below

libbpf and the kernel's BTF (some 20 MB for the moment), or BCC's compiler (some 230), never enter the agentd process.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent import config, placing, probes
from agent.config import Config
from agent.errors import BpfError, ConfigError, LoadFailed, ProbeError
from agent.kernelnames import Placement
from agent.linux import backend, handover, pins
from agent.linux.attached import Attached
from agent.linux.backend import Backend
from agent.linux.bpf import possible_cpus
from agent.linux.loaded import Loaded
from agent.model import Data, Json
from agent.place import require_trust
from agent.ports import Probe


@dataclass(frozen=True, slots=True)
class Loading:
    """What became of one probe: `state` is loaded, present (the same object was pinned already) or failed."""

    probe: str
    state: str
    reason: str = ""
    remedy: str = ""


def load_object(loader: Backend, probe: Probe) -> Loaded:
    """Load and attach the object of `probe` in the best way of `loader` that the kernel takes (tp_btf is refused before 5.5).

    Raises the ProbeError of the first attempt.
    """
    path = probes.object_path(probe.NAME)
    if not path.exists():
        raise LoadFailed(f"{path} is missing", "make -C bpf, or reinstall gatewarden")
    best, *others = loader.attaches
    try:
        return loader.load(path, probe.HOOKS, attach=best)
    except LoadFailed as first:
        for attach in others:
            with suppress(ProbeError):
                return loader.load(path, probe.HOOKS, attach=attach)
        raise first from None


def load(settings: Config) -> list[Loading]:
    """Pin every enabled probe in the bpffs at `bpffs_dir`, mounting one there if need be.

    Raises a ProbeError if the bpffs cannot be used; a single probe that fails is told in its row. A second call is a no-op;
    objects of another version, and of probes that are no longer enabled, are removed.
    """
    bpffs = settings.paths.bpffs_dir
    with pins.loading(bpffs):
        return _load(settings, bpffs)


def _load(settings: Config, bpffs: Path) -> list[Loading]:
    if pins.prepare(bpffs):
        _mark(bpffs).touch()
    loader = backend.choose(settings.bpf.btf_path)
    results = [_pin_one(loader, bpffs, name, settings.probes.options[name]) for name in settings.probes.enabled]
    wanted = {
        pins.folder_of(bpffs, name, path) for name in settings.probes.enabled if (path := probes.object_path(name)).exists()
    }
    for folder in pins.loaded_folders(bpffs):
        if folder not in wanted:
            pins.remove(folder)
    return results


def _pin_one(loader: Backend, bpffs: Path, name: str, options: object) -> Loading:
    try:
        probe = probes.load(name)
        path = probes.object_path(name)
        placement = placing.wanted(probe, options)
        if path.exists() and (folder := pins.folder_of(bpffs, name, path)).exists():
            if placing.holds(folder, placement):
                return Loading(name, "present", "; ".join(placement.lacking))
            pins.remove(folder)  # other addresses: a module was loaded anew, or the configuration is another
        loaded = _placed(load_object(loader, probe), placement)
        pins.pin(pins.folder_of(bpffs, name, path), loaded, probe.STEERED)
        return Loading(name, "loaded", "; ".join(loaded.left_out.values()))
    except ProbeError as error:
        return Loading(name, "failed", error.reason, error.remedy)
    except (BpfError, OSError) as error:
        return Loading(name, "failed", f"pinning: {error}", "umount and mount the bpffs again")


def _placed(loaded: Loaded, placement: Placement) -> Loaded:
    """Fill in the addresses, and note those that could not be found."""
    placing.fill(loaded.maps, placement)
    loaded.left_out |= {text: text for text in placement.lacking}
    return loaded


def unload(settings: Config) -> list[str]:
    """Remove every pinned object (which detaches it), and the bpffs if `load` mounted it. Gives the folders removed."""
    bpffs = settings.paths.bpffs_dir
    folders = pins.loaded_folders(bpffs)
    for folder in folders:
        pins.remove(folder)
    if _mark(bpffs).exists():
        pins.unmount(bpffs)
        _mark(bpffs).unlink()
    return [folder.name for folder in folders]


def _mark(bpffs: Path) -> Path:
    """Say, beside the mount point and thus in a folder of root's, that we mounted it."""
    return bpffs.with_name(f"{bpffs.name}.mounted")


class Measuring:
    """Probes loaded for one measurement by this process itself; `snapshot` as agentd's control verb gives it."""

    def __init__(self, attached: dict[str, tuple[Probe, Attached]]) -> None:
        """Take over the attached probes."""
        self._attached = attached

    def snapshot(self, name: str) -> Data:
        """Give the cumulative snapshot of probe `name`, with `lost`."""
        probe, held = self._attached[name]
        lost = sum(row["lost"] for row in held.maps.stats(len(probe.HOOKS)))
        return {**probe.snapshot(held.maps), "lost": lost, "misses": held.misses(), "programs": list[Json](held.programs())}


@contextlib.contextmanager
def measuring(settings: Config, names: Sequence[str]) -> Iterator[Measuring]:
    """Load `names` for the duration of the block, in this process, unpinned. Raises ProbeError."""
    loader = backend.choose(settings.bpf.btf_path)
    with contextlib.closing(loader), contextlib.ExitStack() as stack:
        attached: dict[str, tuple[Probe, Attached]] = {}
        for name in names:
            probe = probes.load(name)
            placement = placing.wanted(probe, settings.probes.options[name])
            held = Attached(*_placed(load_object(loader, probe), placement).duplicated(), possible_cpus())
            stack.callback(held.close)
            held.maps.steer(probe.steer(settings.probes.options[name], held.maps))
            attached[name] = (probe, held)
        yield Measuring(attached)


def give(settings: Config, fd: int) -> None:
    """Load every enabled probe and hand it over; a probe that fails is told, and the others go on."""
    with suppress(BrokenPipeError), handover.adopt(fd) as end:  # agentd was killed meanwhile: nobody wants them
        try:
            loader = backend.choose(settings.bpf.btf_path)
        except ProbeError as error:
            for name in settings.probes.enabled:
                handover.send_error(end, name, error)
            return
        for name in settings.probes.enabled:
            try:
                probe = probes.load(name)
                placement = placing.wanted(probe, settings.probes.options[name])
                handover.send_loaded(end, name, _placed(load_object(loader, probe), placement))
            except ProbeError as error:
                handover.send_error(end, name, error)


def main() -> int:
    """Run as agentd's child; exit 2 on a bad configuration."""
    parser = argparse.ArgumentParser(prog="python -m agent.loader", description="Loads the probes and hands them to agentd.")
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--give", type=int, required=True, metavar="FD", help="inherited unix seqpacket socket")
    arguments = parser.parse_args()
    try:
        require_trust(arguments.config)
        give(config.check(arguments.config), arguments.give)
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
