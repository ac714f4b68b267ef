"""What `agentctl` can be asked: one file for each verb, found by its name alone; files with a leading underscore help them.

A verb is a module with a docstring (`verb: one line`, then what it does), `EXAMPLES`, `arguments` and `run`.
"""

from __future__ import annotations

import importlib
from argparse import ArgumentParser
from pathlib import Path
from typing import Protocol, cast

from agent.commands._call import Call

HERE = Path(__file__).parent


class Verb(Protocol):
    """A module in this folder."""

    __doc__: str | None

    @property
    def EXAMPLES(self) -> str:  # noqa: N802 - a module constant
        """Command lines for the end of its `--help`."""
        ...

    def arguments(self, parser: ArgumentParser) -> None:
        """Add the options of its own; `--json` and `--config` are there already."""
        ...

    def run(self, call: Call) -> int:
        """Do it and give the exit code (`agent.commands._exit`). Raises GatewardenError for what the operator must know."""
        ...


def names() -> tuple[str, ...]:
    """Give the names of all verbs, as they are typed: the folder is the list."""
    return tuple(sorted(path.stem.replace("_", "-") for path in HERE.glob("[a-z]*.py")))


def load(name: str) -> Verb:
    """Import one verb out of `names()`."""
    return cast("Verb", importlib.import_module(f"agent.commands.{name.replace('-', '_')}"))


def summary(verb: Verb) -> str:
    """Give the one line that a verb says of itself."""
    return (verb.__doc__ or "").strip().split("\n", 1)[0].partition(": ")[2]
