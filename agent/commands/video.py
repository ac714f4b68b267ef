"""video: what is in a video stream, and what decoding it gives (needs PyAV: pip install 'gatewarden[video]').

inspect reads a file without decoding it, and tells every parameter set and what its changes mean. decode goes on over every
change, with another decoder where one fails, and tells how long no good picture came. docs/video.md has the rest.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, cast

from agent.commands._call import Call

EXAMPLES = """examples:
  agentctl video inspect camera.ts
  agentctl video inspect camera.ts --json | jq '.changes[] | select(.class == "format")'
  agentctl video decode camera.ts --adapt 1280x720:yuv420p --out y4m:camera.y4m
"""
WAYS = {
    "inspect": "the parameter sets of a file and their changes",
    "decode": "decode a file or camera, over every change of its parameters",
}


class Way(Protocol):
    """A module `agent.commands._video_<way>`."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its options."""
        ...

    def run(self, call: Call) -> int:
        """Do it and give the exit code."""
        ...


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the ways, each with its own options; `--json` and `--config` may stand before and after the way."""
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
    return cast("Way", importlib.import_module(f"agent.commands._video_{name}"))


def run(call: Call) -> int:
    """Do it."""
    return _way(call.option("way")).run(call)
