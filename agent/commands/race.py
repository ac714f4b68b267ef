"""race: kernel timers that race, found (scan), proved (prove) and hunted down to the variable (hunt).

scan watches the life of every kernel timer and names what happens to it in a state in which it should not, with both sides.
prove traps every write to one kernel variable; hunt finds the variable by itself. docs/races.md tells how to read them.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from agent.commands._call import Call

EXAMPLES = """examples:
  agentctl race scan --seconds 60
  agentctl race scan --seconds 30 --json | jq '.findings[] | select(.verdict != "benign")'
  agentctl race prove jiffies_64 --seconds 2
  agentctl race hunt --seconds 60
"""
WAYS = {
    "scan": "what happens to timers in a state in which it should not",
    "prove": "lost updates of one variable, by hardware watchpoint (root)",
    "hunt": "find the variable of a module that loses updates (root)",
}


class Way(Protocol):
    """A module `agent.commands._<way>`."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its options."""
        ...

    def run(self, call: Call) -> int:
        """Do it and give the exit code."""
        ...


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the three ways, each with its own options; `--json` and `--config` may stand before and after the way."""
    made = cast("Callable[..., argparse.ArgumentParser]", partial(_parser, type(parser)))
    ways = parser.add_subparsers(dest="way", metavar="WAY", required=True, parser_class=cast("Any", made))
    for name, summary in WAYS.items():
        _way(name).arguments(ways.add_parser(name, help=summary, description=summary))


def _parser(kind: Any, *, prog: str, description: str = "", **_more: Any) -> argparse.ArgumentParser:
    """Make a parser like that of the verb, which takes other arguments than argparse's own."""
    if kind is argparse.ArgumentParser:
        return argparse.ArgumentParser(prog, description=description)
    return cast("argparse.ArgumentParser", kind(prog, description, 0, lambda: EXAMPLES))


def _way(name: str) -> Way:
    return cast("Way", importlib.import_module(f"agent.commands._{name}"))


def run(call: Call) -> int:
    """Go the way that was asked for."""
    return _way(call.option("way")).run(call)
