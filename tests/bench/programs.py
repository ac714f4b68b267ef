"""What the kernel itself says of eBPF programs' run time, while it is asked to count (BPF_ENABLE_STATS, Linux 5.8)."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from agent import probes
from agent.config.open_sets import SETS
from agent.linux import pins
from agent.linux.attached import parse_fdinfo
from agent.linux.bpf import ObjectMaps, bpf_command, obj_get, possible_cpus

PROBES = SETS["probes"]  # what is on by default
BPF_ENABLE_STATS, BPF_STATS_RUN_TIME = 32, 0


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Have every program's runs counted and timed. The kernel stops by itself when the descriptor goes, however we end."""
    fd = bpf_command(BPF_ENABLE_STATS, struct.pack("=I", BPF_STATS_RUN_TIME), "BPF_ENABLE_STATS")
    try:
        yield
    finally:
        os.close(fd)


@dataclass(frozen=True, slots=True)
class Spent:
    """Runs, and the nanoseconds that they took."""

    ns: float = 0
    runs: int = 0

    def __add__(self, other: Spent) -> Spent:
        """Sum both parts."""
        return Spent(self.ns + other.ns, self.runs + other.runs)

    def __sub__(self, other: Spent) -> Spent:
        """Give what came on top of `other`."""
        return Spent(self.ns - other.ns, self.runs - other.runs)

    @property
    def each(self) -> float | None:
        """Nanoseconds per run, None without any."""
        return self.ns / self.runs if self.runs else None


def parse_spent(text: str) -> tuple[int, Spent] | None:
    """Give the program's id and what it spent, from a /proc/<pid>/fdinfo text; None if it is no program."""
    found = parse_fdinfo(text)
    if "prog_id" not in found:
        return None
    return found["prog_id"], Spent(found.get("run_time_ns", 0), found.get("run_cnt", 0))


def of_process(pid: int) -> Spent:
    """Give the sum over all programs that `pid` holds."""
    held: dict[int, Spent] = {}
    for path in Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            found = parse_spent(path.read_text(errors="replace"))
            if found is not None:
                held[found[0]] = found[1]
    return sum(held.values(), Spent())


class Pinned:
    """The pinned programs of the default probes in one bpffs, by probe and tracepoint, and our own counters beside them."""

    def __init__(self, bpffs: Path) -> None:
        self._programs: dict[tuple[str, str], int] = {}
        self._maps: dict[str, ObjectMaps] = {}
        for name in PROBES:
            folder = pins.folder_of(bpffs, name, probes.object_path(name))
            for path in sorted(folder.glob("prog_*")):
                hook = path.name.removeprefix("prog_").removesuffix("_btf").removesuffix("_raw")
                self._programs[name, hook] = obj_get(path, read_only=True)
            fds = {key: obj_get(folder / key, read_only=key == "stats") for key in ("stats", "ctl")}
            self._maps[name] = ObjectMaps(fds, possible_cpus())

    def kernel(self) -> Mapping[tuple[str, str], Spent]:
        """Give what the kernel counted, by `(probe, tracepoint)`."""
        found = {}
        for key, fd in self._programs.items():
            spent = parse_spent(Path(f"/proc/self/fdinfo/{fd}").read_text())
            assert spent is not None
            found[key] = spent[1]
        return found

    def own(self) -> Mapping[tuple[str, str], Spent]:
        """Give what the programs timed themselves (1 run in 64)."""
        found = {}
        for name, maps in self._maps.items():
            hooks = probes.load(name).HOOKS
            for hook, row in zip(hooks, maps.stats(len(hooks)), strict=True):
                found[name, hook.tracepoint] = Spent(row["timed_ns"], row["timed_runs"])
        return found

    def off(self, name: str) -> None:
        """Clear a probe's enabled flag, as an exceeded budget does."""
        self._maps[name].steer(bytes(4))

    def close(self) -> None:
        """Give everything back."""
        for fd in self._programs.values():
            os.close(fd)
        for maps in self._maps.values():
            maps.close()


def grown(before: Mapping[tuple[str, str], Spent], after: Mapping[tuple[str, str], Spent]) -> dict[tuple[str, str], Spent]:
    """Give the difference of two readings."""
    return {key: after[key] - before.get(key, Spent()) for key in after}
