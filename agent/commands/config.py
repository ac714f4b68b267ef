"""config: check a configuration file, or show the one in effect with all defaults and without secrets.

`show` leaves out arguments of commands, values of env, and user info and query values of URLs: any of them may be a secret.
`check` prints every problem as FILE:LINE: key: what, allowed; it exits 2 if there is one.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from agent import config
from agent.commands import _exit, _settings
from agent.commands._call import Call
from agent.commands._redact import configuration
from agent.commands._screen import clean
from agent.commands._toml import toml
from agent.errors import ConfigError, Problem
from agent.model import Data, Json

EXAMPLES = """examples:
  agentctl config check deploy/lab/agent.toml
  agentctl config check --json /etc/gatewarden/agent.toml
  agentctl config show
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("action", choices=("check", "show"), help="what to do")
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="the file to check (default: --config)")


def run(call: Call) -> int:
    """Check or show."""
    path = call.option("file") or call.config
    if call.option("action") == "check":
        return _check(call, path)
    call.options.config = path
    shown = configuration(config.to_plain(_settings.of(call)))
    if call.json:
        call.screen.json({"schema": "gatewarden.config/1", "config": shown})
    else:
        call.screen.line(toml(shown))
    return _exit.OK


def _check(call: Call, path: Path) -> int:
    problems = _problems(path)
    if call.json:
        listed: list[Json] = [
            {"file": one.path, "line": one.line, "key": one.key, "what": one.what, "allowed": one.allowed} for one in problems
        ]
        result: Data = {"schema": "gatewarden.config/1", "file": str(path), "problems": listed}
        call.screen.json(result)
    else:
        for problem in problems:
            call.screen.line(clean(problem))
        if not problems:
            call.screen.line(f"{clean(path)}: ok")
    return _exit.USAGE if problems else _exit.OK


def _problems(path: Path) -> tuple[Problem, ...]:
    try:
        config.check(path)
    except ConfigError as error:
        return error.problems
    return ()
