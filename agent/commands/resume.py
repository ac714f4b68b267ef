"""resume: end a hold before its time: that of one workload, or all holds. What waited is done at once, if it is still due."""

from __future__ import annotations

import argparse

from agent.commands import _exit
from agent.commands._call import Call
from agent.errors import BadRequest
from agent.linux.unix import ask

EXAMPLES = """examples:
  agentctl resume
  agentctl resume detector-1
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("workload", nargs="?", metavar="NAME", help="only the hold of this workload (default: every hold)")


def run(call: Call) -> int:
    """Order it."""
    name = call.option("workload")
    found = ask(call.place().control, {"verb": "resume", "workload": name})
    if not isinstance(found, dict):
        raise BadRequest("the answer is none to resume")
    if call.json:
        call.screen.json({"schema": "gatewarden.resume/1", **found})
    else:
        call.screen.line("the hold is over" if found.get("ended") else "there was no such hold")
    return _exit.OK
