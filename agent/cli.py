"""Entry point `agentctl`: import the one verb that is asked for, run it, translate its errors into an exit code."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import re
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

_STDERR = 2
_VALUELESS = re.compile(r"argument (?:.*/)?(-[\w-]+): expected one argument")


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

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End; the last words go to stderr as far as anybody takes them."""
        with contextlib.suppress(OSError):
            sys.stderr.write(message or "")
        sys.exit(status)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line and exit 2."""
        if option := _VALUELESS.match(message):
            message += f"; a value that begins with - is written {option[1]}=-VALUE"
        self.exit(_exit.USAGE, f"{self.prog}: {clean(message)} (see `{self.prog} --help`)\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run `agentctl` with `arguments` (those of the process if there are none) and give its exit code."""
    _stand_in()
    try:
        code = _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read us has seen enough
        _discard()
        return _exit.BROKEN_PIPE
    except OSError as error:
        _discard()
        _say(f"standard output: {error.strerror}")
        return _exit.UNKNOWN
    except KeyboardInterrupt:
        return _exit.INTERRUPTED
    return code


def _stand_in() -> None:
    """Open /dev/null for standard streams that are closed: nobody wants to see them, and no other file may get their number."""
    null = os.open(os.devnull, os.O_RDWR)
    while null <= _STDERR:
        null = os.dup(null)
    for name, number in (("stdin", 0), ("stdout", 1), ("stderr", _STDERR)):
        if getattr(sys, name) is None:
            os.dup2(null, number)
            setattr(sys, name, open(number, "r" if number == 0 else "w", closefd=False))  # noqa: SIM115 - as Python does
    os.close(null)


def _discard() -> None:
    """Let go of what stdout has not taken: the interpreter must not complain when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _say(text: str) -> None:
    """Put lines on stderr, as far as anybody takes them: an error that cannot be told is still an exit code."""
    with contextlib.suppress(OSError):
        sys.stderr.write("".join(f"agentctl: {clean(line)}\n" for line in text.splitlines()))


def _run(arguments: Sequence[str]) -> int:
    """Give the exit code. Raises OSError if stdout takes no more."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr] # both are TextIOWrapper here
    screen = Screen.of(sys.stdout, sys.stderr, os.environ)
    try:
        verb, options = _understood(arguments, screen)
    except SystemExit as end:  # argparse, after --help or an error that it told
        return end.code if isinstance(end.code, int) else _exit.USAGE
    try:
        return verb.run(Call(options, screen, _loader))
    except (GatewardenError, OSError) as error:
        if isinstance(error, OSError) and not error.filename:
            raise
        screen.progress("")
        _say(_words(error))
        return _exit.of_error(error)


def _understood(arguments: Sequence[str], screen: Screen) -> tuple[commands.Verb, argparse.Namespace]:
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
    return verb, options


def _words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


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
