"""Entry point `agentctl`: import the one verb that is asked for, run it, translate its errors into an exit code."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NoReturn, cast

from agent import __version__, commands
from agent.commands import _exit
from agent.commands._call import Call, Loader
from agent.commands._screen import Screen, clean
from agent.errors import GatewardenError
from agent.place import DEFAULT_CONFIG


class Parser(argparse.ArgumentParser):
    """An ArgumentParser that complains in one line, and makes the end of its help only when asked for help."""

    def __init__(self, prog: str, description: str, width: int, ending: Callable[[], str]) -> None:
        """Take the options that stand before and after a verb alike; `ending` gives the text below the options."""
        # Without a width argparse asks shutil, which brings three compression libraries with it: 10 ms of each `status`.
        layout = partial(argparse.RawDescriptionHelpFormatter, width=min(width or 100, 100))
        super().__init__(prog, None, description, formatter_class=cast("Any", layout), allow_abbrev=False)
        self._ending = ending
        self.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON for a machine")
        self.add_argument(
            "--config",
            type=Path,
            default=argparse.SUPPRESS,
            metavar="FILE",
            help=f"the agent's configuration, through which its sockets and files are found (default {DEFAULT_CONFIG})",
        )

    def format_help(self) -> str:
        """Give the help, ended now."""
        self.epilog = self._ending()
        return super().format_help().rstrip("\n") + "\n"

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line and exit 2."""
        self.exit(_exit.USAGE, f"{self.prog}: {clean(message)} (see `{self.prog} --help`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `agentctl` with `arguments` (those of the process if there are none) and give its exit code."""
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Whoever read us has seen enough; the interpreter must not complain when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return _exit.BROKEN_PIPE
    except KeyboardInterrupt:
        return _exit.INTERRUPTED
    return code


def _run(arguments: Sequence[str]) -> int:
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # both are TextIOWrapper here
    screen = Screen.of(sys.stdout, sys.stderr, os.environ)
    options = argparse.Namespace(json=False, config=DEFAULT_CONFIG)
    top = _top(screen.width)
    top.parse_args(arguments, options)
    if options.verb not in commands.names():
        top.error(f"there is no verb {options.verb!r}, known: {', '.join(commands.names())}")
    verb = commands.load(options.verb)
    about = (verb.__doc__ or "").partition(": ")[2]
    parser = Parser(f"agentctl {options.verb}", about, screen.width, lambda: _ending(verb.EXAMPLES))
    verb.arguments(parser)
    parser.parse_args(options.rest, options)
    try:
        return verb.run(Call(options, screen, _loader))
    except BrokenPipeError:
        raise
    except (GatewardenError, OSError) as error:
        screen.progress("")
        print("\n".join(f"agentctl: {clean(line)}" for line in str(error).splitlines()), file=sys.stderr)
        return _exit.of_error(error)


def _top(width: int) -> Parser:
    parser = Parser("agentctl", "Looks after the Gatewarden agent of this gateway.", width, _verbs)
    parser.add_argument("--version", action="version", version=f"agentctl {__version__}")
    parser.add_argument("verb", metavar="VERB", help="what to do, see below")
    parser.add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help="its own options: agentctl VERB --help")
    return parser


def _verbs() -> str:
    lines = [f"  {name:15} {commands.summary(commands.load(name))}" for name in commands.names()]
    return _ending("\n".join(("verbs:", *lines)))


def _ending(text: str) -> str:
    return f"{text.strip()}\n\n{_exit.HELP}"


def _loader() -> Loader:
    """Give `agent.loader`, an entry point too: only here may it be composed with the verbs, and it drags libbpf in."""
    return cast("Loader", importlib.import_module("agent.loader"))


if __name__ == "__main__":
    sys.exit(main())
