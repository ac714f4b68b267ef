"""The always-on check of counters (`conservation`) on planted modules: the racy ones lose, their twins do not."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from agent import config, loader, placing, probes
from agent.detectors.lost_update import Options, make
from agent.linux.clock import boot_id
from agent.model import Data, Event, Finding, Sighting
from tests.kernel.live import live
from tests.vm.guest.planted import LOST, Lost, loaded, race
from tests.vm.guest.rows import Row, Setting

PROBE = probes.load("conservation")
WATCH_S, PATIENCE_S, HEAP_S = 6, 60, 15
UPDATES = 16  # of each callback: tests/vm/modules/lost.h
WAYS = ("plain", "atomic", "locked")


def conserved(setting: Setting) -> Iterator[Row]:
    """Watch the counters of the lost_* modules: only the plain one loses updates; then bad names, a finding, and a reload."""
    for lost in LOST[:1] if setting.quick else LOST[:2]:  # the third has no name
        for fixed, way in enumerate(WAYS):
            with loaded(setting.module(lost.name), fixed=fixed):
                counter = {"symbol": lost.symbol, "callbacks": [lost.callback], "step": UPDATES}
                row = watched(counter, patience_s=WATCH_S if fixed else PATIENCE_S)
            wanted = "conserved" if fixed else "losing"
            passed = row["state"] == wanted and bool(row["deficit"]) <= (not fixed)
            yield Row(f"{lost.name} {way}", wanted, f"{row['state']}: {row['deficit']} lost in {row['runs']} runs", passed)
    yield from bad(setting, LOST[0])
    yield from found(setting, LOST[0])
    yield from reloaded(setting, LOST[0])


def heap(setting: Setting) -> Iterator[Row]:
    """Hunt in a module whose counter lies on the heap: the pointer is followed, only the plain one proved."""
    lost = LOST[2]
    for fixed, way in enumerate(WAYS[:1] if setting.quick else WAYS):
        with loaded(setting.module(lost.name), fixed=fixed):
            report = race("hunt", "--module", lost.name, seconds=HEAP_S)
        names = {key: sorted(str(row["symbol"]) for row in report[key]) for key in ("proved", "acquitted")}
        said = f"proved: {' '.join(names['proved']) or 'none'}; acquitted: {' '.join(names['acquitted']) or 'none'}"
        passed = names["proved"] == ([] if fixed else [lost.symbol]) and (lost.symbol in names["acquitted"]) == bool(fixed)
        yield Row(f"hunt lost_heap {way}", "acquitted" if fixed else f"proved: {lost.symbol}", said, passed)


def settings(*counters: dict[str, Any]) -> config.Config:
    """Give a configuration with these counters."""
    return config.from_plain({"probes": {"enabled": ["conservation"], "conservation": {"counters": list(counters)}}})


def watched(*counters: dict[str, Any], patience_s: float = WATCH_S) -> dict[str, Any]:
    """Watch counters until the first one loses updates, or time is over; gives its line of the report."""
    deadline = time.monotonic() + patience_s
    with loader.measuring(settings(*counters), ("conservation",)) as own:
        while True:
            row = line(None, own.snapshot("conservation"))
            if row["state"] == "losing" or time.monotonic() > deadline:
                return row
            time.sleep(1)


def line(before: Data | None, after: Data) -> dict[str, Any]:
    """Give the first line of the report between two snapshots."""
    report: Any = PROBE.report(before, after)
    first: dict[str, Any] = report["counters"][0]
    return first


def bad(setting: Setting, lost: Lost) -> Iterator[Row]:
    """Name counters that are not there, or no data, beside a good one."""
    cases = (
        (lost.symbol[:-1], "did you mean"),
        (lost.callback, "is text"),
        ("runqueues", "per-CPU"),
    )
    with loaded(setting.module(lost.name), fixed=1):
        good = {"symbol": lost.symbol, "callbacks": [lost.callback], "step": UPDATES}
        for symbol, said in cases:
            reason = str(watched({"symbol": symbol, "callbacks": [lost.callback]}, good)["reason"])
            yield Row(f"counter {symbol}", said, reason, said in reason)


def found(setting: Setting, lost: Lost) -> Iterator[Row]:
    """Take the probe's events to the detector: the finding names the counter."""
    detector = make(Options())
    with loaded(setting.module(lost.name)), live("conservation") as held:
        chosen = settings({"symbol": lost.symbol, "callbacks": [lost.callback], "step": UPDATES}).probes.options["conservation"]
        placing.fill({name: item.fd for name, item in held.maps.maps.items()}, placing.wanted(PROBE, chosen))
        held.maps.steer(PROBE.steer(chosen, held.maps))
        deadline, findings = time.monotonic() + PATIENCE_S, list[Finding]()
        while not findings and time.monotonic() < deadline:
            time.sleep(1)
            findings += [
                finding for number, item in enumerate(held.sightings()) for finding in detector.see(_event(number, item))
            ]
    said = "; ".join(finding.summary for finding in findings)
    yield Row("finding", f"{lost.symbol} lost", said or "none", said.startswith(f"{lost.symbol} lost at least"))


def _event(number: int, item: Sighting) -> Event:
    return Event(boot_id(), number + 1, item.t_mono_ns, 0.0, item.source, item.kind, item.subject, item.severity, item.data)


def reloaded(setting: Setting, lost: Lost) -> Iterator[Row]:
    """Take the module away and load it anew under the running probe: nothing is invented."""
    chosen = settings({"symbol": lost.symbol, "callbacks": [lost.callback], "step": UPDATES})
    module = setting.module(lost.name)
    with contextlib.ExitStack() as stack:
        with loaded(module, fixed=1):
            own = stack.enter_context(loader.measuring(chosen, ("conservation",)))
            time.sleep(WATCH_S)
        with loaded(module, fixed=1):
            before = own.snapshot("conservation")
            time.sleep(WATCH_S)
            row = line(before, own.snapshot("conservation"))
    yield Row(
        "module loaded anew", "no deficit", f"{row['state']} {row['reason']}", not row["deficit"] and row["state"] != "losing"
    )
