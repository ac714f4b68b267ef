"""One probe's object in the kernel, as agentd holds it: its maps, its ring, its programs; from pins or from a loader's hand."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path

from agent.errors import BpfError
from agent.linux.bpf import ObjectMaps, obj_get, open_pins
from agent.linux.ring import Ring

RING = "events"


class Attached:
    """Owns the fds. `maps` satisfies `ports.Maps`; `ring` is None for a probe without events."""

    def __init__(self, maps: Mapping[str, int], programs: Mapping[str, int], links: Mapping[str, int], cpus: int) -> None:
        """Take over all fds, also if it fails (BpfError). `links` are held because closing an unpinned one detaches."""
        self._programs = dict(programs)
        self._links = dict(links)
        self._map_fds = dict(maps)
        with ExitStack() as undo:
            for fd in (*self._map_fds.values(), *self._programs.values(), *self._links.values()):
                undo.callback(os.close, fd)
            self.maps = ObjectMaps({name: fd for name, fd in maps.items() if name != RING}, cpus)
            self.ring = Ring(maps[RING]) if RING in maps else None
            undo.pop_all()

    @classmethod
    def from_pins(cls, folder: Path, cpus: int) -> Attached:
        """Open what `agentctl probes load` pinned in `folder`. Raises BpfError if this user may not."""
        maps = open_pins(folder)
        programs: dict[str, int] = {}
        for path in sorted(folder.glob("prog_*")):
            with suppress(BpfError):  # for root alone: then its misses are not known
                programs[path.name.removeprefix("prog_")] = obj_get(path, read_only=True)
        return cls(maps, programs, {}, cpus)

    def map_bytes(self) -> int:
        """Give the kernel memory of all maps (`memlock` of fdinfo, kernel/bpf/syscall.c bpf_map_show_fdinfo)."""
        return sum(_fdinfo(fd).get("memlock", 0) for fd in self._map_fds.values())

    def programs(self) -> list[str]:
        """Give the names of the programs that are attached: they tell the tier."""
        return sorted(self._programs)

    def misses(self) -> int | None:
        """Give how often a program was skipped because it was running already on that CPU; None if the kernel does not say."""
        counts = [_fdinfo(fd).get("recursion_misses") for fd in self._programs.values()]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None

    def close(self) -> None:
        """Give everything back; an object without pins is detached by this."""
        self.maps.close()
        if self.ring is not None:
            self.ring.close()
        for fd in (*self._programs.values(), *self._links.values()):
            os.close(fd)


def _fdinfo(fd: int) -> dict[str, int]:
    return parse_fdinfo(Path(f"/proc/self/fdinfo/{fd}").read_text(encoding="ascii", errors="replace"))


def parse_fdinfo(text: str) -> dict[str, int]:
    """Give the decimal fields of a /proc/<pid>/fdinfo file."""
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    return {name.strip(): int(value) for name, value in pairs if value.strip().isdecimal()}
