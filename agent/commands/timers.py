"""timers: how late this machine's kernel timers are and how long their callbacks run, measured live.

Lateness is now minus the hard expiry for an hrtimer, and minus the wheel bucket for a timer_list (late by design by some
jiffies). What expired on an idle CPU is kept apart (idle_late_us), as it includes the wake-up from sleep states.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from fnmatch import fnmatchcase

from agent import histogram
from agent.commands import _exit
from agent.commands._arguments import add_seconds, positive
from agent.commands._call import Call
from agent.commands._histogram import draw
from agent.commands._live import measure
from agent.commands._rows import spread, three
from agent.commands._screen import Screen
from agent.commands._status_view import text
from agent.commands._table import NOTHING, number, table
from agent.histogram import FIRST_BIT, NS_PER_US
from agent.model import Data, Json
from agent.narrow import number as number_of
from agent.narrow import part, rows

EXAMPLES = """examples:
  agentctl timers --seconds 10
  agentctl timers --seconds 5 --function 'tcp_*' --top 5
  agentctl timers --seconds 5 --json | jq '.timers[] | select(.late_us.max > 10000)'
"""
SHOWN = 20
ZERO_NS = 1 << FIRST_BIT  # a timer_list is late by whole jiffies: what lies below this edge was not late at all
HEADERS = ("FUNCTION", "KIND", "COUNT", "LATE p50", "LATE p99", "LATE max", "RUN p50", "RUN p99", "RUN max")
SPARE = (1, 6, 3)  # the kind, then medians: the tail is what matters
TITLES = {"timer": "timer_list lateness", "hrtimer": "hrtimer lateness", "hrtimer_soft": "hrtimer lateness (softirq)"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    add_seconds(parser)
    parser.add_argument(
        "--top", type=positive, metavar="K", help=f"the K busiest callbacks only (people see {SHOWN} if not said)"
    )
    parser.add_argument("--function", default="*", metavar="GLOB", help="only callbacks of this name, as 'tcp_*'")


def run(call: Call) -> int:
    """Measure and show."""
    measured = measure(call, ("timers",))
    lines = rows(measured.reports["timers"], "timers")
    chosen = [row for row in lines if fnmatchcase(str(row.get("function")), call.option("function"))]
    if call.json:
        call.screen.json(measured.head("timers") | {"timers": list[Json](chosen[: call.option("top")]), "lost": measured.lost})
        return _exit.OK
    expiries = sum(value for row in chosen if isinstance(value := row.get("count"), int))
    head = f"{number(expiries)} expiries of {len(chosen)} callbacks in {measured.seconds:g} s, {measured.lost} events lost"
    for line in view(call.screen, chosen, head, call.option("top") or SHOWN):
        call.screen.line(line)
    return _exit.OK


def view(screen: Screen, lines: list[Data], head: str, top: int) -> Iterator[str]:
    """Draw the lateness of each kind of timer, then the busiest callbacks."""
    yield screen.paint(head, "bold")
    for kind, title in TITLES.items():
        late = histogram.total([spread(row, "late_us", "late_buckets") for row in lines if row.get("kind") == kind])
        if late.count:
            yield ""
            yield from draw(screen, title, late, ZERO_NS if kind == "timer" else 0)
    if lines:
        yield ""
        yield from table(screen, HEADERS, [_cells(row) for row in lines[:top]], SPARE)
    if len(lines) > top:
        yield screen.paint(f"{len(lines) - top} more: --top {len(lines)}, or --function GLOB", "dim")


def _cells(row: Data) -> tuple[str, ...]:
    name = (text(row.get("function")), text(row.get("kind")), number(row.get("count")))
    if not row.get("count"):  # armed, but did not expire
        return (*name, *[NOTHING] * 6)
    return (*name, *_late(row), *three(row, "run_us"))


def _late(row: Data) -> tuple[str, str, str]:
    if row.get("kind") != "timer":
        return three(row, "late_us")
    late = {key: 0 if number_of(value) * NS_PER_US < ZERO_NS else value for key, value in part(row, "late_us").items()}
    return three({"late_us": late}, "late_us")
