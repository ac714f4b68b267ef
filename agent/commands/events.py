"""events: what was recorded, oldest first: facts, findings, decisions, outcomes.

Reads the event store, whether agentd runs or not. Who may not read it asks agentd, which gives at most 1,000 records and 1 MiB:
if some were left out, that is said (on stderr, and as "cut": true).
With --follow new ones are shown as they come, until Ctrl-C; --follow --json prints one JSON object a line (JSON Lines).
"""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Iterator
from typing import NoReturn

from agent.commands import _exit, _status
from agent.commands._arguments import positive
from agent.commands._call import Call
from agent.commands._screen import Screen
from agent.commands._since import since
from agent.commands._status_view import text
from agent.commands._store import MOST, kind_of, read
from agent.commands._table import pairs, when
from agent.errors import GatewardenError, NotRunning
from agent.linux.clock import SystemClock, pause
from agent.model import Data, Json

EXAMPLES = """examples:
  agentctl events --since 1h --kind 'timer.*'
  agentctl events --limit 1000 --json | jq '.events[].kind'
  agentctl events --follow
"""
POLL_S = 1.0
BATCH = 500
SEEN = 4 * BATCH
_STYLE = {"warning": "degraded", "error": "critical", "critical": "critical"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("--since", metavar="TIME", help="not older than this: 90s, 15m, 1h, 2d, or ISO 8601")
    parser.add_argument("--kind", default="*", metavar="GLOB", help="only of this kind or family: timer.late, timer, '*.storm'")
    parser.add_argument("--limit", type=positive, default=100, metavar="N", help="the newest N (default 100)")
    parser.add_argument("--follow", action="store_true", help="then show new ones as they come, until Ctrl-C")


def run(call: Call) -> int:
    """Show what there is, and what comes."""
    begin = since(call.option("since"), SystemClock().wall()) if call.option("since") else None
    follow, code = call.option("follow"), _exit.OK
    if follow and _nobody(call):
        call.screen.note("agentd is not running: waiting for what it will record")
    try:
        found, cut = read(call.place(), call.option("limit"), begin, call.option("kind"))
    except NotRunning as error:
        found, cut, code = [], False, _exit.NOT_RUNNING
        if not follow:
            call.screen.note(str(error))
    found = in_order(found)
    if cut:
        call.screen.note(
            f"older ones are left out: agentd gives at most {MOST:,} records and 1 MiB; root and group gatewarden see all"
        )
    if not follow:
        if call.json:
            result: Data = {"schema": "gatewarden.events/1", "events": list[Json](found)}
            call.screen.json(result | ({"cut": True} if cut else {}))
        else:
            _show(call, found)
        return code
    return _follow(call, found, begin)


def _nobody(call: Call) -> bool:
    try:
        _status.fetch(call.place())
    except NotRunning:
        return True
    except GatewardenError:  # busy, or we may not ask: somebody is there
        return False
    return False


def _follow(call: Call, found: list[Data], begin: float | None) -> NoReturn:
    seen: dict[str, None] = {}
    while True:
        _show(call, new(found, seen))
        call.screen.out.flush()
        pause(POLL_S)
        with contextlib.suppress(NotRunning):
            found = in_order(read(call.place(), BATCH, begin, call.option("kind")).records)


def in_order(found: list[Data]) -> list[Data]:
    """Sort by time: records of several rings are stored as they are read, not as they happened. Pure."""
    order: list[tuple[float, Data]] = []
    for row in found:
        at = row.get("t_wall")
        order.append((at if isinstance(at, int | float) else order[-1][0] if order else 0.0, row))
    return [row for _, row in sorted(order, key=lambda pair: pair[0])]


def new(found: list[Data], seen: dict[str, None]) -> list[Data]:
    """Give those that are not in `seen`, and remember them: as many as can come again. Pure but for `seen`."""
    fresh = [row for row in found if _identity(row) not in seen]
    seen.update((_identity(row), None) for row in fresh)
    for old in list(seen)[: max(0, len(seen) - SEEN)]:
        del seen[old]
    return fresh


def _identity(row: Data) -> str:
    """Give the dedup key of its message: two decisions on one finding carry the same. Gaps are numbered apart."""
    return repr((row.get("boot_id"), row.get("record") == "gap", row.get("stream_seq")))


def _show(call: Call, found: list[Data]) -> None:
    for row in found:
        if call.json:
            call.screen.json(row, compact=True)
        else:
            for line in view(call.screen, row):
                call.screen.line(line)


def view(screen: Screen, row: Data) -> Iterator[str]:
    """Give one record as a line: time, severity or state, kind, subject, and what it carries."""
    level, subject = text(row.get("severity") or row.get("state")), row.get("subject")
    data, finding = row.get("data"), row.get("finding")
    said = row.get("summary") or row.get("detail") or row.get("reason")
    if subject is None and isinstance(finding, dict):
        subject = finding.get("subject")
    rest = text(said) if said else pairs(data if isinstance(data, dict) else {})
    level = screen.paint(f"{level:8}", _STYLE.get(level, level))
    yield f"{when(row.get('t_wall'))}  {level}  {text(kind_of(row)):22}  {text(subject)}  {rest}"
