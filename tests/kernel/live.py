"""What the live tests share: one probe in the running kernel, delays put into its path, and small programs to watch."""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

from agent import probes
from agent.linux import bcc
from agent.linux.attached import Attached
from agent.linux.backend import Backend
from agent.linux.bpf import Map, possible_cpus
from agent.linux.libbpf import Loader
from agent.model import Data, Sighting
from agent.ports import Hook, Probe

PATIENCE_S = 10.0
ANY = 0xFFFFFFFF
CLOCK_MONOTONIC, TFD_TIMER_ABSTIME = 1, 1

_libc = ctypes.CDLL(None, use_errno=True)


def back_end() -> Backend:
    """Give what loads the probes under test: by the kernel's BTF, or as GATEWARDEN_BACKEND says: `bcc`, or a file with BTF.

    The oracles beside them always go by the kernel's BTF.
    """
    chosen = os.environ.get("GATEWARDEN_BACKEND", "")
    return bcc.Loader() if chosen == "bcc" else Loader(Path(chosen) if chosen else None)


class Live:
    """A loaded and attached probe. Its flag is off until `steer`."""

    def __init__(self, name: str, attach: str = "") -> None:
        """Load it from the compiled objects, in the best way there is or by `attach`."""
        self.probe: Probe = probes.load(name)
        self._loader = back_end()
        loaded = self._loader.load(probes.object_path(name), self.probe.HOOKS, attach=attach or self._loader.attaches[0])
        self.held = Attached({key: os.dup(fd) for key, fd in loaded.maps.items()}, {}, {}, possible_cpus())
        self.maps = self.held.maps
        self.left_out = loaded.left_out

    def steer(self, **options: object) -> None:
        """Turn it on with these options."""
        self.maps.steer(self.probe.steer(cast("Any", self.probe.Options)(**options), self.maps))

    def off(self) -> None:
        """Clear the enabled flag, as an exceeded CPU budget does."""
        self.maps.steer(struct.pack("=I", 0))

    def stats(self) -> dict[str, dict[str, int]]:
        """Give struct gw_stats by hook."""
        hooks = self.probe.HOOKS
        return {hook.tracepoint: row for hook, row in zip(hooks, self.maps.stats(len(hooks)), strict=True)}

    def snapshot(self) -> Data:
        """Read the aggregates."""
        return self.probe.snapshot(self.maps)

    def report(self, before: Data | None = None) -> Data:
        """Report until now."""
        return self.probe.report(before, self.snapshot())

    def rows(self, table: str, before: Data | None = None) -> list[Data]:
        """Give one list of a report."""
        return cast("list[Data]", self.report(before)[table])

    def sightings(self) -> list[Sighting]:
        """Take all events that are in the ring now."""
        ring = self.held.ring
        assert ring is not None
        found: list[Sighting] = []
        while records := ring.read():
            ring.advance(records[-1][0])
            found += [self.probe.sighting(memoryview(record)) for _, record in records]
        return found

    def wait_for(self, wanted: Callable[[Sighting], bool], stir: Callable[[], object] = lambda: time.sleep(0.02)) -> Sighting:
        """Stir until an event is as `wanted`; fails after PATIENCE_S with what there was instead."""
        seen: list[Sighting] = []
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            stir()
            for item in self.sightings():
                if wanted(item):
                    return item
                seen.append(item)
        raise AssertionError(f"no such event; seen: {seen[-5:]}, stats: {self.stats()}")

    def close(self) -> None:
        """Detach and free it."""
        self._loader.close()
        self.held.close()


@contextlib.contextmanager
def live(name: str, attach: str = "") -> Iterator[Live]:
    """Give a probe for the duration of a test."""
    found = Live(name, attach)
    try:
        yield found
    finally:
        found.close()


@contextlib.contextmanager
def delayed(path: Path, tracepoint: str, *, ms: float, times: int, only: int = ANY) -> Iterator[None]:
    """Hold the CPU for `ms` at the next `times` hits of `tracepoint` (of vector or line `only`): `delay.bpf.c` at `path`."""
    loader = Loader()
    signature = loader.btf.signature(tracepoint)
    assert signature is not None
    loaded = loader.load(path, (Hook(tracepoint, (signature,)),), attach="raw_tp")
    plan = Map(os.dup(loaded.maps["delay"]), possible_cpus())
    try:
        plan.update(bytes(4), struct.pack("=QII", int(ms * 1e6), times, only))
        yield
    finally:
        plan.close()
        loader.close()


@contextlib.contextmanager
def deferrable_expiries(folder: Path) -> Iterator[Callable[[], int]]:
    """Give how many deferrable timers expired since (`deferrable.bpf.c`)."""
    loader = Loader()
    hook = Hook("timer_expire_entry", ("timer_list *, long unsigned int",))
    loaded = loader.load(compiled_object(folder, "deferrable"), (hook,), attach="raw_tp")
    oracle = Map(os.dup(loaded.maps["deferrable"]), possible_cpus())
    try:
        yield lambda: int(struct.unpack("=Q", oracle.lookup(bytes(4)) or bytes(8))[0])
    finally:
        oracle.close()
        loader.close()


def agrees(ours: int, inner: int, outer: int) -> bool:
    """Tell whether a count fits the kernel's own, read within and around it.

    A few are let pass: some kernels run no BPF program in some interrupts, and count that as no recursion miss either
    (measured beside ftrace: a few ticks a minute).
    """
    slack = max(20, outer // 20)
    return inner - slack <= ours <= outer + slack


def compiled_object(folder: Path, name: str) -> Path:
    """Compile one of the programs here: the fault injector `delay`, an oracle."""
    target = folder / f"{name}.bpf.o"
    source = Path(__file__).parent / f"{name}.bpf.c"
    include = f"-I/usr/include/{os.uname().machine}-linux-gnu"
    flags = ["-g", "-O2", "-target", "bpf", "-mcpu=v2", include]
    subprocess.run(["clang", *flags, "-c", str(source), "-o", str(target)], check=True)
    return target


def compiled(folder: Path, name: str, source: str) -> Path:
    """Compile a small C program for this machine."""
    (folder / f"{name}.c").write_text(source)
    target = folder / name
    subprocess.run(["clang", "-O1", "-Wno-deprecated-declarations", str(target) + ".c", "-o", str(target)], check=True)
    return target


@contextlib.contextmanager
def running(*command: str, cpu: int | None = None, **options: Any) -> Iterator[subprocess.Popen[bytes]]:  # Popen's own
    """Run a child, on one CPU if told; it is killed at the end at the latest."""
    if cpu is not None:
        options["preexec_fn"] = lambda: os.sched_setaffinity(0, {cpu})
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, **options) as child:
        try:
            yield child
        finally:
            child.kill()


def python(code: str) -> tuple[str, ...]:
    """Give the command that runs `code`."""
    return (sys.executable, "-I", "-S", "-c", code)


class TimerFd:
    """A timerfd (Python has them from 3.13 on)."""

    def __init__(self) -> None:
        """Make one on CLOCK_MONOTONIC."""
        self.fd = int(_libc.timerfd_create(CLOCK_MONOTONIC, 0))
        assert self.fd >= 0

    def set(self, at_ns: int, every_ns: int = 0) -> None:
        """Arm it for an absolute time, which may lie in the past."""
        spec = struct.pack("=4q", every_ns // 10**9, every_ns % 10**9, at_ns // 10**9, at_ns % 10**9)
        assert _libc.timerfd_settime(self.fd, TFD_TIMER_ABSTIME, spec, None) == 0

    def wait(self) -> None:
        """Block until it expired."""
        os.read(self.fd, 8)

    def close(self) -> None:
        """Give it back."""
        os.close(self.fd)
