"""A verb that goes one of several ways (`agentctl race scan`), each a module of its own."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, cast

from agent.commands._call import Call


class Way(Protocol):
    """A module of `Ways`."""

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add its options."""
        ...

    def run(self, call: Call) -> int:
        """Do it and give the exit code."""
        ...


@dataclass(frozen=True, slots=True)
class Ways:
    """The ways of one verb: `agent.commands.<prefix><name>`, each with what it does in a few words."""

    prefix: str
    summaries: Mapping[str, str]
    examples: str

    def arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add the ways, each with its own options; `--json` and `--config` may stand before and after the way."""
        made = cast("Callable[..., argparse.ArgumentParser]", partial(self._parser, type(parser)))
        ways = parser.add_subparsers(dest="way", metavar="WAY", required=True, parser_class=cast("Any", made))
        for name, summary in self.summaries.items():
            self._way(name).arguments(ways.add_parser(name, help=summary, description=summary))

    def run(self, call: Call) -> int:
        """Go the way that was asked for."""
        return self._way(call.option("way")).run(call)

    def _parser(self, kind: Any, *, prog: str, description: str = "", **_more: Any) -> argparse.ArgumentParser:
        """Make a parser like that of the verb, which takes other arguments than argparse's own."""
        if kind is argparse.ArgumentParser:
            return argparse.ArgumentParser(prog, description=description)
        return cast("argparse.ArgumentParser", kind(prog, description, 0, lambda: self.examples))

    def _way(self, name: str) -> Way:
        return cast("Way", importlib.import_module(f"agent.commands.{self.prefix}{name}"))
