"""hold: for maintenance: nothing is done to a workload, or to any and to the machine, until the time is over or `resume`.

The keeper still starts anew what exits, unless the hold names that workload. The hardware watchdogs are fed meanwhile, and the
central service sees "maintenance" (a hold of everything only).
"""

from __future__ import annotations

import argparse

from agent.commands import _exit
from agent.commands._call import Call
from agent.commands._exit import Usage
from agent.commands._since import length
from agent.commands._status_view import text
from agent.commands._table import when
from agent.errors import BadRequest
from agent.linux.unix import ask

EXAMPLES = """examples:
  agentctl hold 30m --why "camera is being replaced"
  agentctl hold 2h --why "debugging the detector" detector-1
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("length", metavar="TIME", help="how long, at most 7d: 90s, 30m, 1h, 2d")
    parser.add_argument("workload", nargs="?", metavar="NAME", help="only this workload (default: everything)")
    # argparse gives a last optional word to nobody once an option came before it: `hold 30m --why TEXT NAME` needs this.
    parser.add_argument("--why", required=True, nargs="+", metavar=("TEXT", "NAME"), help="for whoever finds it in force")


def run(call: Call) -> int:
    """Order it."""
    why, *rest = call.option("why")
    names = [name for name in (call.option("workload"), *rest) if name is not None]
    if len(names) > 1:
        raise Usage(f"one workload at most, not {', '.join(names)}: put the text of --why in quotes")
    seconds, name = length(call.option("length")), names[0] if names else None
    found = ask(call.place().control, {"verb": "hold", "workload": name, "seconds": seconds, "why": why})
    if not isinstance(found, dict):
        raise BadRequest("the answer is none to hold")
    if call.json:
        call.screen.json({"schema": "gatewarden.hold/1", **found})
    else:
        call.screen.line(f"{name or 'everything'} is on hold until {when(found.get('until'))}: {text(found.get('why'))}")
    return _exit.OK
