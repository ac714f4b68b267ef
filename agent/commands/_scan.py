"""race scan: the timer races of a while, by class and verdict, from agentd or (root) from a probe of our own."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
from collections.abc import Iterator

from agent import probes
from agent.commands import _exit, _settings
from agent.commands._arguments import add_seconds
from agent.commands._call import Call, Source
from agent.commands._findings import Interval, findings, tier
from agent.commands._live import Agentd, _wait
from agent.commands._scan_view import view
from agent.errors import GatewardenError, NotPermitted
from agent.linux import livepatch
from agent.model import Data, Json

PROBE = "timer_race"
FREES_S = 60


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add_seconds(parser)
    parser.add_argument(
        "--frees",
        type=window,
        metavar="N",
        help="for how many seconds memory that is given back is looked at too (F4, F5), the dearest part; 0: not at all "
        f"(default: the whole scan, {FREES_S} s at most; not with a probe of agentd)",
    )
    parser.add_argument("--all", action="store_true", help="show benign findings and their stacks to people too")


def window(raw: str) -> int:
    """Read a number of seconds that may be 0."""
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 4 and int(raw) <= 3600):
        raise argparse.ArgumentTypeError(f"{raw!r} is no number of seconds, allowed: 0 .. 3600")
    return int(raw)


def run(call: Call) -> int:
    """Watch and show. Exit code 1 if something is a fault."""
    with _source(call) as (label, source):
        before = source.snapshot(PROBE)
        _wait(call, call.option("seconds"))
        after = source.snapshot(PROBE)
    interval = Interval(probes.load(PROBE).report(before, after), before, after)
    found = findings(interval)
    result: Data = {
        "schema": "gatewarden.race.scan/1",
        "seconds": call.option("seconds"),
        "source": label,
        "tier": tier(after),
        "findings": list[Json](found),
        "seen": interval.report["seen"],
        "lost": interval.lost,
        "missed_runs": interval.misses,
        "livepatches": livepatch.read(),
    }
    if call.json:
        call.screen.json(result)
    else:
        for line in view(call.screen, result, everything=call.option("all")):
            call.screen.line(line)
    return _exit.DEGRADED if any(row["verdict"] == "fault" for row in found) else _exit.OK


@contextlib.contextmanager
def _source(call: Call) -> Iterator[tuple[str, Source]]:
    """Give agentd if it runs the probe and frees are not asked for; else, to root, a probe of our own."""
    agentd, root = Agentd(call.place()), os.geteuid() == 0
    try:
        if call.option("frees") and root:
            raise NotPermitted("agentd looks at no frees", "")
        agentd.snapshot(PROBE)
    except GatewardenError as error:
        if not root:
            raise NotPermitted(
                f"{error}", f"enable the probe {PROBE} in agentd, or scan as root (sudo agentctl race scan)"
            ) from error
    else:
        yield "agentd", agentd
        return
    call.screen.progress("loading …")
    settings = _settings.of(call, probes=(PROBE,))
    frees = call.option("frees")
    frees_s = min(FREES_S, int(call.option("seconds")) + 1) if frees is None else frees
    options = dataclasses.replace(settings.probes.options[PROBE], free_window_s=frees_s)  # type: ignore[type-var]
    chosen = dataclasses.replace(settings.probes, options={**settings.probes.options, PROBE: options})
    with call.loader().measuring(dataclasses.replace(settings, probes=chosen), (PROBE,)) as own:
        yield "own", own
