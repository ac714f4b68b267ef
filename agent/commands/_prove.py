"""race prove: every write to one kernel variable trapped for a while, and whether updates were lost."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from agent.collider import target
from agent.commands import _exit
from agent.commands._arguments import add_seconds
from agent.commands._call import Call
from agent.commands._collider import bench, by_broker
from agent.commands._screen import Screen
from agent.commands._status_view import text
from agent.commands._table import number, table, wrapped
from agent.errors import BadRequest
from agent.model import Data
from agent.narrow import part, rows

HEADERS = ("WRITER", "INSTRUCTION", "ATOMIC", "CONTEXT", "CPUS", "WRITES")
STYLES = {"race": "critical", "none seen": "ok", "inconclusive": "degraded"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("target", metavar="[*]SYMBOL[+OFF][:LEN]", help="kernel variable; * follows the pointer stored there")
    add_seconds(parser)


def run(call: Call) -> int:
    """Watch and show. Exit code 1 if a race is proved."""
    aim = target.parse(call.option("target"))
    found = by_broker(call, "prove", aim.text)
    if found is None:
        with bench() as own:
            case = own.case(target.place(aim, own.symbols, own.pointer))
            if len(own.watch.peek(case.spot.address, case.spot.length)) < case.spot.length:
                raise BadRequest(f"{aim.text}: no memory can be read at {case.spot.address:#x}")
            call.screen.progress(f"watching {case.spot.length} bytes at {case.spot.address:#x} …")
            own.inquiry.run([case], call.option("seconds"))
            found = own.report(case)
            call.screen.progress("")
    if call.json:
        call.screen.json({"schema": "gatewarden.race.prove/1", **found})
    else:
        for line in view(call.screen, found):
            call.screen.line(line)
    return _exit.DEGRADED if found.get("verdict") == "race" else _exit.OK


def view(screen: Screen, found: Data) -> Iterator[str]:
    """Draw one report."""
    verdict = text(found.get("verdict"))
    yield f"{text(found.get('symbol'))} ({text(found.get('length'))} bytes at {text(found.get('address'))}): " + screen.paint(
        verdict, STYLES.get(verdict, "bold")
    )
    yield from wrapped(screen, text(found.get("reason")), "  ")
    counts = (number(found.get(key)) for key in ("writes", "growth", "lost_updates"))
    yield "  {} writes, grown by {}, at least {} lost".format(*counts)
    writers = rows(found, "writers")
    if writers:
        yield ""
        yield from table(screen, HEADERS, [_cells(row) for row in writers], (3,))
    for row in writers:
        frames, load = row.get("stack"), part(row, "load")
        yield ""
        if load:
            yield f"loads by  {text(load.get('instruction'))}  in {text(load.get('symbol'))}"
            yield f"stores by {text(row.get('instruction'))}  in {text(row.get('symbol'))}"
        yield screen.paint(f"stack of {text(row.get('symbol'))}", "dim")
        yield from (f"  {text(frame)}" for frame in (frames if isinstance(frames, list) else ()))


def _cells(row: Data) -> tuple[str, ...]:
    lists = (row.get("contexts"), row.get("cpus"))
    contexts, cpus = (", ".join(map(str, item)) if isinstance(item, list) else "" for item in lists)
    atomic = "yes" if row.get("atomic") else "no"
    return (text(row.get("symbol")), text(row.get("instruction")), atomic, contexts, cpus, number(row.get("writes")))
