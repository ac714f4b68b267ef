"""The steps of one virtual machine. Each gives rows: what was expected, what was found, and whether that is the same."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tests.vm.guest.conserved import conserved, heap
from tests.vm.guest.planted import FAULTS, LOST, accusations, loaded, race
from tests.vm.guest.rows import Row, Setting, Step
from tests.vm.guest.without_btf import bcc, external_btf

PROVE_S, HUNT_S, HEALTHY_S, VIGIL_S, TWINS_S = 5, 60, 20, 300, 12
LIVEPATCH = Path("/sys/kernel/livepatch/lost_timer_patch")
TRANSITION_S = 60


def probes(setting: Setting) -> Iterator[Row]:
    """Load and attach every probe, and hold what it says against the kernel: the live tests of `tests/kernel`."""
    quietly = ["-q", "-rfs", "--tb=short", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *quietly, "-m", "kernel", "-o", "timeout=300"]
    done = subprocess.run([*command, *setting.tests], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    print(done.stdout[-12000:] if done.returncode else "", flush=True)
    lines = [line for line in done.stdout.splitlines() if " passed" in line or " failed" in line]
    yield Row(" ".join(setting.tests), "all pass", lines[-1] if lines else f"exit {done.returncode}", done.returncode == 0)


def healthy(_setting: Setting, seconds: int = HEALTHY_S) -> Iterator[Row]:
    """Scan the kernel as it is: nobody is accused."""
    report = race("scan", seconds=seconds)
    found = accusations(report)
    seen = f"{report['seen']['starts']} starts, {report['seen']['expiries']} expiries in {seconds} s, tier {report['tier']}"
    yield Row("healthy kernel", "nothing", f"{told(found)}; {seen}", not found and report["tier"] == "A")


def vigil(setting: Setting) -> Iterator[Row]:
    """Do so for five minutes."""
    yield from healthy(setting, VIGIL_S)


def cost(_setting: Setting) -> Iterator[Row]:
    """Run the bench's hackbench beside bpftrace and BCC: less of all CPU time than either (`make bench` installs all three)."""
    command = [sys.executable, "-m", "tests.bench", "--rows", "hackbench.*", "--quick", "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    for row in json.loads(done.stdout)["rows"]:
        measured = "-" if row["measured"] is None else f"{row['measured']:.2f} {row['unit']}"
        judged = row["must"] is not None or row["measured"] is None
        passed = not judged or str(row["verdict"]).startswith("meets")
        yield Row(row["name"], f"<= {row['must']}" if judged else "", f"{measured}, {row['verdict']}; {row['note']}", passed)


def planted(setting: Setting) -> Iterator[Row]:
    """Hold the modules to what they say of themselves: the faulty ones commit their fault, the repaired ones never do."""
    for name, ways in [*((fault.name, 2) for fault in FAULTS), *((lost.name, 3) for lost in LOST)]:
        for fixed in range(ways):
            with loaded(setting.module(name), fixed) as truth:
                time.sleep(6 if name == "f8_stuck" else 2)
            passed = truth.rounds > 0 and bool(truth.faults) == (not fixed)
            yield Row(
                f"{name} fixed={fixed}", "none" if fixed else "faults", f"{truth.faults} in {truth.rounds} rounds", passed
            )


def faults(setting: Setting) -> Iterator[Row]:
    """Scan with each faulty module in the kernel (quick: with three or four at once): its class and its callback are named."""
    # All seven at once starve a real-time guest: their callbacks are threads before which agentctl never runs on a busy host.
    for group in [FAULTS[:4], FAULTS[4:]] if setting.quick else [(fault,) for fault in FAULTS]:
        with contextlib.ExitStack() as stack:
            truths = [stack.enter_context(loaded(setting.module(fault.name))) for fault in group]
            found = accusations(race("scan", seconds=max(fault.seconds for fault in group)))
        for fault, truth in zip(group, truths, strict=True):
            own = [row for row in found if row[0] == fault.callback or len(group) == 1]
            passed = fault.fault in {row[1] for row in own if row[0] == fault.callback}
            yield Row(fault.name, f"{fault.fault} {fault.callback}", f"{told(own)}; committed {truth.faults} times", passed)


def twins(setting: Setting) -> Iterator[Row]:
    """Scan with all repaired modules in the kernel at once: nobody is accused."""
    with contextlib.ExitStack() as stack:
        for fault in FAULTS:
            stack.enter_context(loaded(setting.module(fault.name), fixed=1))
        found = accusations(race("scan", seconds=TWINS_S))
    for fault in FAULTS:
        own = [row for row in found if row[0] == fault.callback]
        yield Row(f"{fault.name} repaired", "nothing", told(own), not own)
    known = {fault.callback for fault in FAULTS}
    others = [row for row in found if row[0] not in known]
    yield Row("others beside them", "nothing", told(others), not others)


def proofs(setting: Setting) -> Iterator[Row]:
    """Watch the counters of the lost_* modules: the plain one loses updates, the atomic and the locked one are acquitted."""
    for lost in LOST[:1] if setting.quick else LOST:
        for fixed, way in enumerate(("plain", "atomic", "locked")):
            with loaded(setting.module(lost.name), fixed=fixed):
                report = race("prove", lost.symbol, seconds=PROVE_S)
            wanted = "none seen" if fixed else f"race {lost.callback}"
            said = f"{report['verdict']}: {report['lost_updates']} lost of {report['writes']} ({report.get('reason', '')})"
            passed = report["verdict"] == wanted.removesuffix(f" {lost.callback}") and bool(report["lost_updates"]) <= (
                not fixed
            )
            yield Row(f"{lost.name} {way}", wanted, said, passed and lost.callback in written_by(report))


def written_by(report: dict[str, Any]) -> set[str]:
    """Give the functions that wrote to what was watched, and the instructions by which they did are known."""
    return {str(writer["symbol"]).partition("+")[0] for writer in report["writers"] if writer["instruction"]}


def hunt(setting: Setting) -> Iterator[Row]:
    """Hunt in a module that was not named: its plain counter is proved racy, its atomic and its locked one are acquitted."""
    name = setting.unknown.stem
    with loaded(setting.unknown):
        report = race("hunt", seconds=HUNT_S)
    proved = {str(row["symbol"]): written_by(row) for row in report["proved"]}
    said = "; ".join(f"{symbol} by {' '.join(sorted(writers))}" for symbol, writers in proved.items())
    yield Row(f"hunt ({name})", f"{name}_frames", said or "nothing", proved == {f"{name}_frames": {f"{name}_poll"}})
    acquitted = {str(row["symbol"]) for row in report["acquitted"]}
    twins = {f"{name}_octets", f"{name}_drops"}
    yield Row("its twins", "acquitted", " ".join(sorted(acquitted)) or "nobody", twins <= acquitted)


def livepatch(setting: Setting) -> Iterator[Row]:
    """Repair the running lost_timer module by a live patch: what was proved before is not found any more."""
    counter = LOST[0].symbol
    with loaded(setting.module(LOST[0].name)):
        before = race("prove", counter, seconds=PROVE_S)
        yield Row("before the live patch", "race", str(before["verdict"]), before["verdict"] == "race")
        with patched(setting.module("lost_timer_patch")):
            after = race("prove", counter, seconds=PROVE_S)
            listed = "lost_timer_patch" in str(race("scan", seconds=2))
        passed = after["verdict"] == "none seen" and not after["lost_updates"]
        yield Row("after it", "none seen", f"{after['verdict']}: {after['lost_updates']} lost of {after['writes']}", passed)
        yield Row("scan lists it", "lost_timer_patch", "listed" if listed else "not listed", listed)


@contextlib.contextmanager
def patched(module: Path) -> Iterator[None]:
    """Keep a live patch in force; afterwards it is disabled and removed."""
    subprocess.run(["insmod", str(module)], check=True)
    until(lambda: (LIVEPATCH / "transition").read_text().strip() == "0")
    try:
        yield
    finally:
        (LIVEPATCH / "enabled").write_text("0")
        until(lambda: not LIVEPATCH.exists())
        subprocess.run(["rmmod", module.stem], check=True)


def until(done: Callable[[], bool]) -> None:
    """Wait for a live patch's transition. Raises TimeoutError after a minute."""
    deadline = time.monotonic() + TRANSITION_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError("the live patch's transition does not end")
        time.sleep(0.2)


def told(found: list[tuple[str, str, str]]) -> str:
    """Give accusations as one cell."""
    return ", ".join(sorted({f"{fault} {callback} ({verdict})" for callback, fault, verdict in found})) or "nothing"


STEPS: dict[str, Step] = {
    "faults": faults,
    "twins": twins,
    "healthy": healthy,
    "proofs": proofs,
    "hunt": hunt,
    "livepatch": livepatch,
    "probes": probes,
    "conserved": conserved,
    "heap": heap,
    "bcc": bcc,
    "external_btf": external_btf,
    "planted": planted,
    "vigil": vigil,
    "cost": cost,
}
# `planted` holds the modules to themselves, for whoever changes one; the other steps show what it would. `vigil` and `cost` are
# `healthy` at length, and a benchmark.
DEFAULT = tuple(name for name in STEPS if name not in {"planted", "vigil", "cost"})
