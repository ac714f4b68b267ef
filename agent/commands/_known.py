"""A part of the status as a verb: of a living agentd, or what was last known. For the verbs that show one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from agent.commands import _exit, _status
from agent.commands._call import Call
from agent.model import Data, Json
from agent.narrow import rows


def show(call: Call, document: Callable[[Data], Data], view: Callable[[Data], Iterable[str]]) -> int:
    """Show `document(status)` with `--json`, else the lines of `view(status)`; give the exit code."""
    status = _status.fetch_or_last(call.place())
    alive = _status.running(status)
    if call.json:
        stale: Data = {} if alive else {"stale_s": status["stale_s"], "not_running": status["not_running"]}
        call.screen.json(document(status) | stale)
    else:
        if not alive:
            call.screen.note(f"agentd is not running, this is what was last known: {status['not_running']}")
        for line in view(status):
            call.screen.line(line)
    return _exit.OK if alive else _exit.NOT_RUNNING


def picked(status: Data, name: str, keys: Sequence[str]) -> list[Json]:
    """Give just `keys` of each row of the part `name`."""
    return [{key: row.get(key) for key in keys} for row in rows(status, name)]
