"""workloads: what must run, how much of its deadline each has left, what was done for it last and what would be next.

Without agentd it shows what was last known, and exits with 3. The keeper restarts workloads meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from functools import partial

from agent.commands import _known
from agent.commands._call import Call
from agent.commands._status_view import INDENT, reasons, text
from agent.commands._table import NOTHING, number, seconds, table, when, wrapped
from agent.model import Data
from agent.narrow import rows

EXAMPLES = """examples:
  agentctl workloads
  agentctl workloads --json | jq '.workloads[] | select(.misses > 0)'
"""
KEYS = (
    *("name", "state", "pid", "restarts", "deadline_s", "margin_s", "margin_p1_s", "misses"),
    *("last_rung", "next_rung", "last_recovery_ms", "hold_until"),
)
_HEAD = ("WORKLOAD", "STATE", "PID", "RESTARTS", "DEADLINE", "MARGIN", "P1 24H", "MISSES", "LAST RUNG", "NEXT RUNG", "RECOVERY")
_SPARE = (2, 6, 10, 8)  # what a narrow terminal does without, in this order


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add none of its own."""


def run(call: Call) -> int:
    """Show them."""
    return _known.show(call, _document, partial(view, call))


def _document(status: Data) -> Data:
    return {"schema": "gatewarden.workloads/1", "workloads": _known.picked(status, "workloads", KEYS)}


def view(call: Call, status: Data) -> Iterator[str]:
    """Give the table, below each workload what is to be said of it."""
    listed = rows(status, "workloads")
    if not listed:
        yield call.screen.paint("no workloads: [[workload]] in agent.toml names what must run", "dim")
        return
    header, *lines = table(call.screen, _HEAD, [_cells(row) for row in listed], _SPARE)
    yield header
    for row, line in zip(listed, lines, strict=True):
        yield line
        yield from reasons(call.screen, row)
        for said in _remarks(row):
            yield from wrapped(call.screen, said, INDENT * 2)


def _cells(row: Data) -> tuple[str, ...]:
    took = row.get("last_recovery_ms")
    return (
        *(text(row.get("name")), text(row.get("state")), text(row.get("pid")), number(row.get("restarts"))),
        *(seconds(row.get(key)) for key in ("deadline_s", "margin_s", "margin_p1_s")),
        *(number(row.get("misses")), text(row.get("last_rung")), text(row.get("next_rung"))),
        f"{number(took)} ms" if isinstance(took, int | float) else NOTHING,
    )


def _remarks(row: Data) -> Iterator[str]:
    if row.get("said"):
        yield f"says: {text(row['said'])}"
    if row.get("profile"):
        yield f"degraded to profile {text(row['profile'])}"
    if row.get("proven") is False:
        yield "not proven: it says nothing of its life, so it counts as working while its process lives"
    if row.get("hold_until") is not None:
        yield f"on hold until {when(row['hold_until'])}: {text(row.get('hold_why'))}"
    if row.get("next_in_s") is not None:
        yield f"{text(row.get('next_rung'))} in {seconds(row['next_in_s'])}, or at its next failure, unless it works by then"
