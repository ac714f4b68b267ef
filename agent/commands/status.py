"""status: whether all is well, at one glance, also when agentd is dead.

Shows what agentd says of itself; if it does not run, its last words with their age, and exit code 3.
"""

from __future__ import annotations

import argparse

from agent.commands import _exit, _status
from agent.commands._arguments import seconds
from agent.commands._call import Call
from agent.commands._status_view import verdict, view
from agent.errors import Busy
from agent.linux import programs
from agent.linux.clock import SystemClock, pause
from agent.model import Data

EXAMPLES = """examples:
  agentctl status
  agentctl status --json | jq .state
  agentctl status --watch 5
  agentctl status --wait 60 --fail-on critical   # a gate for scripts
"""
POLL_S = 0.5


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--watch", type=seconds, nargs="?", const=2.0, metavar="N", help="again every N seconds (default 2)")
    how.add_argument("--brief", action="store_true", help="one line only: the state, or not-running")
    how.add_argument("--wait", type=seconds, metavar="SECONDS", help="wait until all is well, at most so long")
    _exit.add_fail_on(parser)


def run(call: Call) -> int:
    """Show it once, or again and again."""
    if call.option("brief") and call.json:
        raise _exit.Usage("--brief is one word for people: take --json without it")
    if call.option("watch") is None:
        return _show(call, _awaited(call))
    while True:
        call.screen.clear()
        try:
            _show(call, _fetch(call), compact=True)
        except Busy as error:
            call.screen.note(str(error))
        call.screen.out.flush()
        pause(call.option("watch"))


def _fetch(call: Call) -> Data:
    return _status.fetch_or_last(call.place())


def _code(call: Call, status: Data) -> int:
    if not _status.running(status):
        return _exit.NOT_RUNNING
    return _exit.of_state(_status.state_of(status), call.option("fail_on"))


def _awaited(call: Call) -> Data:
    clock = SystemClock()
    deadline = clock.mono_ns() + (call.option("wait") or 0) * 1e9
    while (left := deadline - clock.mono_ns()) > 0:
        status = _unless_busy(call)
        call.screen.progress("")
        if status is not None and _code(call, status) == _exit.OK:
            return status
        said = verdict(call.screen, status) if status else "agentd is busy"
        call.screen.progress(f"{said} … waiting {left / 1e9:.0f} s")
        pause(min(POLL_S, left / 1e9))
    call.screen.progress("")
    return _fetch(call)


def _unless_busy(call: Call) -> Data | None:
    try:
        return _fetch(call)
    except Busy:
        return None


def _show(call: Call, status: Data, *, compact: bool = False) -> int:
    if call.json:
        call.screen.json(status, compact=compact)
    elif call.option("brief"):
        call.screen.line(_status.state_of(status) if _status.running(status) else "not-running")
    else:
        for line in view(call.screen, status, programs.start(call.config)):
            call.screen.line(line)
    return _code(call, status)
