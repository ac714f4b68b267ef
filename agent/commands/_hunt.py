"""race hunt: finds the shared variables of modules whose timers run, watches them, and reports which lose updates."""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from collections.abc import Iterator
from dataclasses import replace

from agent.collider import hunt
from agent.collider.case import Case
from agent.collider.verdict import verdict
from agent.commands import _exit
from agent.commands._arguments import add_seconds
from agent.commands._call import Call
from agent.commands._collider import Bench, bench, by_broker
from agent.commands._live import measure
from agent.commands._prove import view as case_view
from agent.commands._screen import Screen
from agent.commands._status_view import text
from agent.commands._table import number
from agent.errors import BadRequest
from agent.linux.clock import SystemClock
from agent.model import Data, Json
from agent.narrow import rows

MODULE = re.compile(r"[A-Za-z0-9_-]{1,64}", re.ASCII)
TIMERS_S = 2.0  # how long callbacks are listened to


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("--module", default="", metavar="M", help="only the data of this module")
    add_seconds(parser)


def run(call: Call) -> int:
    """Hunt and show. Exit code 1 if a race is proved."""
    module = call.option("module").replace("-", "_")
    if module and not MODULE.fullmatch(module):
        raise BadRequest(f"{module[:64]!r} is no name of a module")
    found = by_broker(call, "hunt", module) or _hunt(call, module)
    if call.json:
        call.screen.json({"schema": "gatewarden.race.hunt/1", **found})
    else:
        for line in view(call.screen, found):
            call.screen.line(line)
    return _exit.DEGRADED if found.get("proved") else _exit.OK


def _hunt(call: Call, module: str) -> Data:
    lost = 0
    with bench() as own:
        if module:
            if module not in own.symbols.modules():
                raise BadRequest(f"module {module} is not loaded, or has no symbols in /proc/kallsyms")
            modules = [module]
        else:
            listened = measure(replace(call, options=Namespace(**vars(call.options) | {"seconds": TIMERS_S})), ("timers",))
            modules = hunt.suspects(rows(listened.reports["timers"], "timers"), own.symbols)
            lost = listened.lost
        wanted = [place for name in modules for place in hunt.places(own.symbols, name)]
        wanted += [place for name in modules for place in hunt.heap(own.symbols, name, own.watch.peek)]
        hunting = hunt.Hunt(own.inquiry, SystemClock(), own.case, call.screen.progress)
        hunting.run(wanted, call.option("seconds"))
        call.screen.progress("")
        return _report(own, hunting, modules, lost)


def _report(own: Bench, hunting: hunt.Hunt, modules: list[str], lost: int) -> Data:
    cases = [*hunting.candidates, *hunting.acquitted]
    found = {name: [own.report(case) for case in cases if _verdict(own, case) == name] for name in ("race", "none seen")}
    return {
        "proved": list[Json](found["race"]),
        "acquitted": list[Json](found["none seen"]),
        "modules": list[Json](modules),
        "scanned": len(hunting.scanned),
        "lost": lost + hunting.lost + sum(case.lost for case in cases),
    }


def _verdict(own: Bench, case: Case) -> str:
    return verdict(case, own.symbols.label)[0]


def view(screen: Screen, found: Data) -> Iterator[str]:
    """Draw what was proved, then who was acquitted."""
    modules = found.get("modules")
    named = ", ".join(map(str, modules)) if isinstance(modules, list) and modules else ""
    if not named:
        yield "no timer callback of a module ran: nothing to hunt in (--module M names one)"
        return
    proved, acquitted = rows(found, "proved"), rows(found, "acquitted")
    scanned = f"{number(found.get('scanned'))} variables of {named} scanned, {number(found.get('lost'))} events lost"
    yield screen.paint(f"{len(proved)} races proved; {scanned}", "bold")
    for row in proved:
        yield ""
        yield from case_view(screen, row)
    if acquitted:
        yield ""
        yield screen.paint("acquitted", "bold")
    for row in acquitted:
        yield f"  {text(row.get('symbol'))}: {text(row.get('reason'))}"
