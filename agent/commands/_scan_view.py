"""How people see `race scan`."""

from __future__ import annotations

from collections.abc import Iterator

from agent.commands._screen import Screen, clean
from agent.commands._status_view import text
from agent.commands._table import micros, number, table, wrapped
from agent.model import Data
from agent.narrow import part, rows

TITLES = {
    "F1": "initialised while armed or running",
    "F2": "started while its callback runs elsewhere",
    "F3": "deleted without waiting while its callback runs elsewhere",
    "F4": "its memory given back while armed",
    "F5": "its memory given back while its callback runs",
    "F7": "late, overlong, or periods missed",
    "F8": "armed, and never fires",
    "F9": "re-armed in the past, over and over",
    "F10": "re-armed while somebody takes it down",
    "F11": "two callbacks that wait for each other",
}
STYLES = {"fault": "critical", "suspect": "degraded", "benign": "dim"}
HEADERS = ("CALLBACK", "CLASS", "COUNT", "WHY BENIGN")


def view(screen: Screen, result: Data, *, everything: bool) -> Iterator[str]:
    """Draw what was looked at, each finding with both its sides, the benign ones in a table, and the live patches."""
    seen, found = part(result, "seen"), rows(result, "findings")
    counts = [f"{number(seen.get(key))} {key}" for key in ("starts", "expiries", "cancels", "frees")]
    yield screen.paint(f"tier {text(result.get('tier'))}, {text(result.get('seconds'))} s: " + ", ".join(counts), "bold")
    if result.get("lost") or result.get("missed_runs"):
        lost, unseen = number(result.get("lost")), number(result.get("missed_runs"))
        yield f"{lost} suspicions lost, {unseen} events not shown by the kernel"
    if seen.get("frees_skipped"):
        yield f"{number(seen.get('frees_skipped'))} frees over the budget were not looked at"
    grave = [row for row in found if everything or row.get("verdict") != "benign"]
    for row in grave:
        yield ""
        yield from _finding(screen, row)
    benign = [row for row in found if row not in grave]
    if benign:
        yield ""
        cells = [(text(row["callback"]), text(row["class"]), number(row["count"]), text(row["reason"])) for row in benign]
        yield from table(screen, HEADERS, cells, (3,))
    if not grave:
        yield "no race found"
    for patch in rows(result, "livepatches"):
        state = "in transition" if patch.get("transition") else "active" if patch.get("enabled") else "disabled"
        functions = patch.get("functions")
        names = ", ".join(map(str, functions)) if isinstance(functions, list) else ""
        yield screen.paint(f"live patch {text(patch.get('name'))} {state}: {clean(names)}", "bold")


def _finding(screen: Screen, row: Data) -> Iterator[str]:
    verdict, fault = text(row.get("verdict")), text(row.get("class"))
    title = f"{fault} {text(row.get('callback'))}: {TITLES.get(fault, '')}"
    head = f"{screen.paint(verdict, STYLES.get(verdict, 'bold'))}  {title}, {number(row.get('count'))} times"
    yield f"{head} (confirmed by {text(row.get('confirmed'))}, timer {text(row.get('timer'))})"
    if row.get("reason"):
        yield from wrapped(screen, text(row.get("reason")), "  ")
    sides, stacks = part(row, "sides"), part(row, "stacks")
    for name, lead in (("actor", "who"), ("other", f"against, {micros(row.get('distance_us'))} before")):
        side = part(sides, name)
        where = f"CPU {text(side.get('cpu'))}, {text(side.get('context'))}, {text(side.get('comm'))} ({text(side.get('pid'))})"
        yield f"  {lead}: {where}"
        stack = stacks.get(name)
        for line in stack if isinstance(stack, list) else []:
            yield screen.paint(f"      {clean(line)}", "dim")
