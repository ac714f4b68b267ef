"""doctor: run every check of this machine and of the agent; for what is wrong, say why and what to do.

The same checks make the MQTT health message; with --fail-on they are a gate for scripts.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import cast

from agent.commands import _doctor, _exit
from agent.commands._call import Call
from agent.commands._screen import Screen
from agent.commands._status_view import INDENT, reasons, text
from agent.model import Data, State
from agent.narrow import rows

EXAMPLES = """examples:
  agentctl doctor
  agentctl doctor --fail-on critical --json   # a gate for scripts
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    _exit.add_fail_on(parser)


def run(call: Call) -> int:
    """Check and show."""
    result = _doctor.result(call.config)
    state = cast("State", result["state"])
    if call.json:
        call.screen.json(result)
    else:
        for line in view(call.screen, result, state):
            call.screen.line(line)
    return _exit.of_state(state, call.option("fail_on"))


def view(screen: Screen, result: Data, state: State) -> Iterator[str]:
    """Give the checks by group, each with its reason and remedy, and the verdict at the end."""
    checks = rows(result, "checks")
    width = max((len(text(row["name"])) for row in checks), default=0)
    for group in dict.fromkeys(text(row["group"]) for row in checks):
        yield screen.paint(group, "bold")
        for row in checks:
            if text(row["group"]) == group:
                yield from _check(screen, row, width)
        yield ""
    counts = {each: sum(row["state"] == each for row in checks) for each in ("ok", "degraded", "critical", "unknown")}
    told = ", ".join(f"{n} {each}" for each, n in counts.items() if n)
    yield f"{screen.paint(f'● {state}', state)}  {told}"


def _check(screen: Screen, row: Data, width: int) -> Iterator[str]:
    state = text(row["state"])
    good = state == "ok"
    reason = text(row["reason"]) if good and row.get("reason") else ""
    yield f"{INDENT}{screen.paint(f'{state:8}', state)}  {text(row['name']):{width}}  {reason}".rstrip()
    if not good:
        yield from reasons(screen, row)
