"""watchdog: what resets this machine if it hangs, who feeds it, how near it came, and why the machine started last.

With agentd dead it shows its last words, and what the kernel itself says of its watchdogs now; none is opened for that.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from typing import cast

from agent.commands import _known
from agent.commands._call import Call
from agent.commands._status_view import reasons, text
from agent.commands._table import number, seconds, table, wrapped
from agent.linux import watchdogfacts
from agent.model import Data, Json
from agent.narrow import part, rows

EXAMPLES = """examples:
  agentctl watchdog
  agentctl watchdog --json | jq '.watchdogs[] | {name, margin_p1_s, misses}'
"""
KEYS = (
    *("name", "kind", "state", "condition", "owner", "identity", "hardware", "ttl_s", "margin_s", "margin_p1_s", "misses"),
    *("feeds", "last_rung", "evidence", "pretimeout_s", "nowayout", "reason", "remedy"),
)
_HEAD = ("WATCHDOG", "STATE", "CONDITION", "OWNER", "TTL", "MARGIN", "P1 24H", "MISSES", "LAST RUNG", "EVIDENCE")
_SPARE = (8, 9, 1)  # what a narrow terminal does without, in this order


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add none of its own."""


def run(call: Call) -> int:
    """Show them."""
    return _known.show(call, _document, partial(view, call))


def _document(status: Data) -> Data:
    kernel = [cast("Data", asdict(one)) for one in watchdogfacts.read()]
    shown = _known.picked(status, "watchdogs", KEYS)
    head: Data = {"schema": "gatewarden.watchdog/1", "watchdogs": shown, "kernel": list[Json](kernel)}
    return head | {"feeding": part(status, "feeding"), "last_reset": status["last_reset"]}


def view(call: Call, status: Data) -> Iterator[str]:
    """Give the table, below each what is to be said of it, then the last reset."""
    listed = rows(status, "watchdogs")
    if listed:
        header, *lines = table(call.screen, _HEAD, [_cells(row) for row in listed], _SPARE)
        yield header
        for row, line in zip(listed, lines, strict=True):
            yield line
            yield from reasons(call.screen, row)
    else:
        yield call.screen.paint("no watchdog: a machine that hangs stays hung (agentctl doctor)", "dim")
    reset, feeding = part(status, "last_reset"), part(status, "feeding")
    yield ""
    if feeding:
        memory, thread = text(feeding.get("memory")), text(feeding.get("feeding_thread"))
        yield f"feeding: memory {memory}; thread {thread}; OOM score {number(feeding.get('oom_score_adj'))}"
    yield f"last reset: {text(reset.get('cause'))} (confidence {text(reset.get('confidence'))})"
    if reset.get("reason"):
        yield from wrapped(call.screen, text(reset["reason"]), "  ")


def _cells(row: Data) -> tuple[str, ...]:
    return (
        *(text(row.get(key)) for key in ("name", "state", "condition", "owner")),
        *(seconds(row.get(key)) for key in ("ttl_s", "margin_s", "margin_p1_s")),
        *(number(row.get("misses")), text(row.get("last_rung")), text(row.get("evidence"))),
    )
