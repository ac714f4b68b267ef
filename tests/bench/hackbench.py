"""eBPF under hackbench: share of all CPU time, ours beside bpftrace's and BCC's runqlat in one run; its own loss."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench import gateway, peers, programs
from tests.bench.peers import Peer
from tests.bench.plan import Plan
from tests.bench.programs import Pinned, Spent
from tests.bench.table import Row

TITLE = "eBPF cost under hackbench, beside bpftrace and BCC"
NEEDS = ("kernel", "root")
BESIDE = {"bpftrace": peers.bpftrace, "bcc": peers.bcc}
ROWS = (
    "hackbench.run_queue.share",
    "hackbench.all.share",
    *(f"hackbench.ratio.{name}" for name in BESIDE),
    "hackbench.slowdown",
)
CONFIG = "[budget]\ncpu_pct = 100.0\n"  # nothing is switched off for its cost
MUST_RATIO, AIM_RATIO = 1.0, 0.5
SWITCH = ("run_queue", "sched_switch")
EMULATED = "GATEWARDEN_GUEST" in os.environ


def seconds(plan: Plan) -> int:
    """Give about how long it takes."""
    return plan.of(80, 26)


@dataclass(frozen=True, slots=True)
class Sample:
    """One run of hackbench: how long it took, what our programs ran meanwhile, and what each peer's did."""

    seconds: float
    kernel: dict[tuple[str, str], Spent]
    beside: tuple[float, ...]

    def ns(self, probe: str = "") -> float:
        """Give the time that `probe` (all, if none is named) took."""
        return sum(spent.ns for key, spent in self.kernel.items() if probe in {"", key[0]})

    def share(self, probe: str = "") -> float:
        """Give that as a percentage of all CPU time."""
        return self.ns(probe) / self.seconds / (os.cpu_count() or 1) / 1e7


def measure(plan: Plan) -> Iterator[Row]:
    """Run it with the probes and all peers while the kernel counts run time; then with and without the probes."""
    if shutil.which("hackbench") is None:
        raise FileNotFoundError("hackbench is not installed (apt-get install rt-tests)")
    with contextlib.ExitStack() as stack:
        box = stack.enter_context(gateway.installed(CONFIG))
        box.run("probes", "load")
        stack.enter_context(gateway.agentd(box))
        gateway.all_probes_run(box)
        pinned = stack.enter_context(contextlib.closing(Pinned(box.bpffs)))
        loops = _loops(plan)
        stack.enter_context(programs.counted())
        ran = [stack.enter_context(run()) for run in BESIDE.values()]
        samples = [_sample(loops, pinned, ran) for _ in range(plan.of(5, 3))]
        gateway.all_probes_run(box)
    yield from _shares(samples)
    yield from (_ratio(name, at, ran[at], samples) for at, name in enumerate(BESIDE))
    yield _slowdown(plan, loops)


def _hackbench(loops: int) -> float:
    begun = time.monotonic()
    subprocess.run(["hackbench", "-g", "2", "-f", "8", "-l", str(loops)], stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begun


def _loops(plan: Plan) -> int:
    """Give how many loops take some seconds on this machine."""
    first = 50 if EMULATED else 500
    return max(1, round(first * plan.of(4, 2) / _hackbench(first)))


def _sample(loops: int, pinned: Pinned, ran: Sequence[Peer]) -> Sample:
    kernel, beside = pinned.kernel(), [peer.spent().ns for peer in ran]
    length = _hackbench(loops)
    after = tuple(peer.spent().ns - before for peer, before in zip(ran, beside, strict=True))
    return Sample(length, programs.grown(kernel, pinned.kernel()), after)


def _shares(samples: Sequence[Sample]) -> Iterator[Row]:
    rate = median(sample.kernel[SWITCH].runs / sample.seconds for sample in samples)
    note = f"{rate:,.0f} switches/s on {os.cpu_count()} CPUs, {len(samples)} runs of {samples[0].seconds:.1f} s"
    for probe in ("run_queue", ""):
        share = median(sample.share(probe) for sample in samples)
        label = f"{probe or 'all five probes'}: share of all CPU time under hackbench"
        yield Row(f"hackbench.{probe or 'all'}.share", label, "%", share, note=note)


def _ratio(name: str, at: int, peer: Peer, samples: Sequence[Sample]) -> Row:
    label = f"run_queue: CPU time, ours / {peer.name} runqlat's"
    if peer.pid is None:
        return Row(f"hackbench.ratio.{name}", label, "", None, note=peer.why)
    ratios = [sample.ns("run_queue") / sample.beside[at] for sample in samples]
    theirs = median(sample.beside[at] / sample.seconds / (os.cpu_count() or 1) / 1e7 for sample in samples)
    note = (
        f"{peer.name}: {theirs:.2f} % of all CPU time; of {len(ratios)} runs: {', '.join(f'{ratio:.2f}' for ratio in ratios)}"
    )
    return Row(f"hackbench.ratio.{name}", label, "", median(ratios), MUST_RATIO, AIM_RATIO, note=note)


def _slowdown(plan: Plan, loops: int) -> Row:
    """Run it with nothing and with all probes in turn, without the kernel's own counting, which costs more than a probe."""
    bare, probed = list[float](), list[float]()
    for _ in range(plan.of(5, 3)):
        bare.append(_hackbench(loops))
        with gateway.installed(CONFIG) as box:
            box.run("probes", "load")
            with gateway.agentd(box):
                gateway.all_probes_run(box)
                probed.append(_hackbench(loops))
    loss = 100 * (min(probed) / min(bare) - 1)
    note = (
        f"best of {len(bare)}: {min(bare):.2f} s without, {min(probed):.2f} s with all five probes and agentd; "
        f"worst {max(bare):.2f} and {max(probed):.2f} s"
    )
    return Row("hackbench.slowdown", "hackbench takes longer by", "%", loss, note=note)
