"""eBPF: nanoseconds per event and share of all CPU time, ours beside bpftrace's runqlat on the same events of the same run."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from agent import probes
from tests.bench import gateway, peers, programs, readings
from tests.bench.peers import Peer
from tests.bench.plan import Plan
from tests.bench.programs import Pinned, Spent
from tests.bench.table import Row

TITLE = "eBPF cost under load, beside bpftrace"
NEEDS = ("kernel", "root")

SWITCH = ("run_queue", "sched_switch")
# An expiry is two events, of which the exit books what the entry saw: their mean is judged, since either could do the work.
PAIRS_OF = {
    "timer_expiry": ("timer_expire_entry", "timer_expire_exit"),
    "hrtimer_expiry": ("hrtimer_expire_entry", "hrtimer_expire_exit"),
}
MUST_NS, AIM_NS = 200, 120
MUST_RATIO, AIM_RATIO = 1.0, 0.5
AT_SWITCHES, MUST_SHARE = 10_000, 0.8
FEW = 10  # timed samples below which our own figure says nothing
PAIRS, WAITERS = 8, 4
# Nothing is switched off for its cost, and there is enough of process_exit to see.
CONFIG = '[budget]\ncpu_pct = 100.0\n[probes.process_exit]\ncomm = ["sleep"]\n'
PEER = "bpf.peer"
SHARES = ("bpf.run_queue.ns_per_switch", "bpf.run_queue.ratio", "bpf.all.ns_per_switch", "bpf.all.ratio", "bpf.all.share")
OFF = "bpf.off.sched_switch"


def _hooks() -> list[tuple[str, str]]:
    return [(name, hook.tracepoint) for name in programs.PROBES for hook in probes.load(name).HOOKS]


def _name(key: tuple[str, str]) -> str:
    return f"bpf.{key[0]}.{key[1]}"


ROWS = (
    *(_name(key) for key in _hooks()),
    *(f"bpf.timers.{name}" for name in PAIRS_OF),
    *SHARES,
    f"{PEER}.ns_per_switch",
    f"{PEER}.rss",
    OFF,
)


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(3 * (8 + 5) + 15, 2 * (4 + 3) + 12)


@dataclass(frozen=True, slots=True)
class Sample:
    """One stretch of load."""

    seconds: float
    kernel: dict[tuple[str, str], Spent]
    own: dict[tuple[str, str], Spent]
    peer: Spent

    def switches(self) -> int:
        """Give how many switches the machine made."""
        return self.kernel[SWITCH].runs

    def per_switch(self, probe: str = "") -> float:
        """Give the ns that `probe` (all, if none is named) took for each switch, whatever the events."""
        return sum(spent.ns for key, spent in self.kernel.items() if probe in {"", key[0]}) / self.switches()


def measure(plan: Plan) -> Iterator[Row]:
    """Load the machine by ping-pong, then by timers, and read everybody's run time before and after."""
    with contextlib.ExitStack() as stack:
        box = stack.enter_context(gateway.installed(CONFIG))
        box.run("probes", "load")
        pid = stack.enter_context(gateway.agentd(box))
        gateway.all_probes_run(box)
        pinned = stack.enter_context(contextlib.closing(Pinned(box.bpffs)))
        stack.enter_context(programs.counted())
        peer = stack.enter_context(peers.bpftrace())
        repeats = plan.of(3, 2)
        switching = [_sample("pingpong", plan.of(8, 4), PAIRS, pinned, peer) for _ in range(repeats)]
        ticking = [_sample("timers", plan.of(5, 3), WAITERS, pinned, peer) for _ in range(repeats)]
        gateway.all_probes_run(box)
        sizes = readings.memory(pid).alone_kib, readings.rss_kib(peer.pid) if peer.pid else None
        pinned.off("run_queue")
        idle = _sample("pingpong", 2, PAIRS, pinned, peer)
    yield from (_hook(key, ticking if key[0] == "timers" else switching) for key in _hooks())
    yield from (_expiry(name, hooks, ticking) for name, hooks in PAIRS_OF.items())
    yield from _shares(switching, peer.why)
    yield from _peer(switching, sizes, peer.why)
    spent = idle.kernel[SWITCH]
    yield Row(OFF, "sched_switch while the probe is off", "ns", spent.each, note="mostly the kernel's own two clock reads")


def _sample(kind: str, length: int, count: int, pinned: Pinned, peer: Peer) -> Sample:
    load = [sys.executable, "-I", "-S", str(Path(__file__).with_name("load.py")), kind, str(length), str(count)]
    kernel, own, theirs = pinned.kernel(), pinned.own(), peer.spent()
    begun = time.monotonic()
    subprocess.run(load, stdout=subprocess.DEVNULL, check=True)
    for _ in range(20):
        subprocess.run(["true"], check=True)
    return Sample(
        time.monotonic() - begun,
        programs.grown(kernel, pinned.kernel()),
        programs.grown(own, pinned.own()),
        peer.spent() - theirs,
    )


def _hook(key: tuple[str, str], samples: list[Sample]) -> Row:
    per_run = [spent.each for sample in samples if (spent := sample.kernel[key]).each is not None]
    runs = sum(sample.kernel[key].runs for sample in samples)
    what = f"{key[1]}, per event"
    if not per_run:
        return Row(_name(key), what, "ns", None, note="no such event during the load")
    value = median(item for item in per_run if item is not None)
    own = sum((sample.own[key] for sample in samples), Spent())
    note = f"{runs:,} events by the kernel's bpf_stats; "
    if own.runs >= FEW and own.each:
        note += f"our own sampled counters: {own.each:.0f} ns (kernel / own {value / own.each:.2f})"
    else:
        note += "too few for our own counters, which sample 1 in 64"
    must, aim = (MUST_NS, AIM_NS) if key == SWITCH else (None, None)
    return Row(_name(key), what, "ns", value, must, aim, note)


def _expiry(name: str, hooks: tuple[str, str], samples: list[Sample]) -> Row:
    keys = [("timers", hook) for hook in hooks]
    per_event = [sum((sample.kernel[key] for key in keys), Spent()).each for sample in samples]
    own = [sum((sample.own[key] for sample in samples), Spent()).each for key in keys]
    known = [value for value in per_event if value is not None]
    note = "mean of entry and exit"
    if None not in own:
        note += f"; our own sampled counters: {sum(value or 0 for value in own) / len(own):.0f} ns"
    value = median(known) if known else None
    return Row(f"bpf.timers.{name}", f"{name}, per event", "ns", value, MUST_NS, AIM_NS, note=note if known else "none came")


def _shares(samples: list[Sample], why: str) -> Iterator[Row]:
    cpus = os.cpu_count() or 1
    rate = median(sample.switches() / sample.seconds for sample in samples)
    for probe, name in (("run_queue", "run_queue"), ("", "all")):
        mine = median(sample.per_switch(probe) for sample in samples)
        share = median(sample.per_switch(probe) * sample.switches() / sample.seconds / cpus / 1e7 for sample in samples)
        note = f"{share:.2f} % of all CPU time at {rate:,.0f} switches/s on {cpus} CPUs"
        label = f"{probe or 'all five probes'}: ns for each switch, wake-ups included"
        yield Row(f"bpf.{name}.ns_per_switch", label, "ns", mine, note=note)
        label = f"{probe or 'all five probes'}: CPU time, ours / runqlat's"
        if why:
            yield Row(f"bpf.{name}.ratio", label, "", None, note=why)
            continue
        ratios = [sample.per_switch(probe) * sample.switches() / sample.peer.ns for sample in samples]
        spread = f"of {len(ratios)} runs: {', '.join(f'{ratio:.2f}' for ratio in ratios)}"
        yield Row(f"bpf.{name}.ratio", label, "", median(ratios), MUST_RATIO, AIM_RATIO, note=spread)
    each = median(sample.per_switch() for sample in samples)
    note = f"{each:.0f} ns for each switch x {AT_SWITCHES:,} / {cpus} CPUs"
    scaled = each * AT_SWITCHES / cpus / 1e7
    yield Row(
        "bpf.all.share", f"all five: share of all CPU time at {AT_SWITCHES:,} switches/s", "%", scaled, MUST_SHARE, note=note
    )


def _peer(samples: list[Sample], sizes: tuple[int, int | None], why: str) -> Iterator[Row]:
    mine, theirs = sizes
    each = None if why else median(sample.peer.ns / sample.switches() for sample in samples)
    yield Row(f"{PEER}.ns_per_switch", "bpftrace runqlat: ns for each switch", "ns", each, note=why or "same run, same events")
    mib = None if theirs is None else theirs / readings.KIB_PER_MIB
    beside = f"agentd's USS in the same run: {mine / readings.KIB_PER_MIB:.1f} MiB"
    yield Row(f"{PEER}.rss", "bpftrace runqlat: RSS", "MiB", mib, note=why or beside)
