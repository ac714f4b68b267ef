"""mcu: the microcontroller that watches this machine: its lease, link and event log; power-cycle by it; simulate one.

status and log ask agentd. power-cycle has the microcontroller cut and restore the power of this machine, after 5 s. simulate
runs firmware_hooks/port/host on a pseudo-terminal until Ctrl-C, and prints what it does, a line of JSON each.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator

from agent.commands import _exit, _status
from agent.commands._call import Call
from agent.commands._status_view import reasons, text
from agent.commands._table import duration, number, table
from agent.errors import BadRequest, NotRunning, Refused
from agent.linux import simulator
from agent.linux.clock import pause
from agent.linux.unix import ask_patiently
from agent.model import Data, Json
from agent.narrow import count, part, rows, state
from agent.narrow import number as real

EXAMPLES = """examples:
  agentctl mcu
  agentctl mcu log --json
  sudo agentctl mcu power-cycle --yes
  agentctl mcu simulate --link /dev/shm/mcu --set lose=50 --set ttl-max-ms=20000
"""
SCHEMA = "gatewarden.mcu/1"
_PATIENCE_S, _STEP_S, _TIMEOUT_S = 8.0, 0.05, 2.0
_SETTING = re.compile(r"([a-z0-9-]{1,32})=([0-9]{1,10})")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    actions = ("status", "log", "power-cycle", "simulate")
    parser.add_argument("action", nargs="?", choices=actions, default="status", help="what to do (default status)")
    parser.add_argument("--yes", action="store_true", help="power-cycle: yes, cut the power of this machine")
    parser.add_argument("--link", metavar="PATH", help="simulate: keep a symbolic link to its port here, for [mcu] port")
    setting = "simulate: a time or a fault, as lose=50 (of 10,000 bytes)"
    parser.add_argument("--set", action="append", default=[], metavar="NAME=NUMBER", help=setting)
    parser.add_argument("--options", action="store_true", help="simulate: list what --set takes")


def run(call: Call) -> int:
    """Do it."""
    actions: dict[str, Callable[[Call], int]] = {
        "status": _show,
        "log": _log,
        "power-cycle": _power_cycle,
        "simulate": _simulate,
    }
    return actions[call.option("action")](call)


def _show(call: Call) -> int:
    try:
        found = _ask(call, "status")
    except NotRunning:
        found = _last(call)
    alive = "stale_s" not in found
    if call.json:
        call.screen.json({"schema": SCHEMA, **found})
    else:
        if not alive:
            call.screen.note(f"agentd is not running, this is what was last known: {found['not_running']}")
        for line in view(call, found):
            call.screen.line(line)
    return _exit.of_state(state(found.get("state"))) if alive else _exit.NOT_RUNNING


def _last(call: Call) -> Data:
    """Give the row that agentd left behind."""
    status = _status.last(call.place())
    row = next((row for row in rows(status, "watchdogs") if row.get("kind") == "mcu"), {})
    return {**row, "stale_s": status["stale_s"], "not_running": "agentd does not answer"}


def view(call: Call, found: Data) -> Iterator[str]:
    """Give what there is to know, a line each."""
    told = part(found, "status")
    left, ttl, p1 = (duration(found.get(key)) for key in ("margin_s", "ttl_s", "margin_p1_s"))
    feeds = number(found.get("feeds"))
    reset, boots = text(found.get("reset")), number(found.get("boots"))
    yield f"link      {text(found.get('link'))}, {text(found.get('port'))}"
    yield from reasons(call.screen, found)
    yield f"lease     phase {text(found.get('phase'))}, left {left} of {ttl} (p1 over 24 h {p1}), renewed {feeds} times"
    yield f"firmware  {text(found.get('firmware'))}, started {boots} times, last by {reset}"
    yield f"power     cycled {number(found.get('cycles'))} times, {number(found.get('expiries'))} of them as the lease expired"
    if told:
        yield f"next off  {duration(count(told.get('next_off_ms')) / 1000)}, after {number(told.get('tries'))} tries"
    for name, counters in (("here", part(found, "errors")), ("there", told)):
        bad = [f"{key} {value}" for key, value in counters.items() if _is_error(key) and value]
        yield f"errors    {name}: {', '.join(bad) or 'none'}"


def _is_error(key: str) -> bool:
    return key in {"crc", "frame", "strays", "repeats", "gaps", "bad_tokens", "overruns", "self_checks"} or key.endswith(
        ("_errors", "_timeouts")
    )


def _log(call: Call) -> int:
    asked = _ask(call, "log")
    since = count(asked.get("t_mono_ns"))
    found = _until(call, asked, lambda report: count(report.get("log_ns")) >= since)
    fresh = count(found.get("log_ns")) >= since
    if call.json:
        call.screen.json({"schema": SCHEMA, "fresh": fresh, "log": found.get("log")})
    else:
        if not fresh:
            call.screen.note(f"the microcontroller does not answer ({text(found.get('reason'))}), this is what it told before")
        shown = [_cells(row) for row in rows(found, "log")]
        for line in table(call.screen, ("BOOT", "AT", "REASON", "DETAIL", "PHASE", "TTL", "SEQ"), shown):
            call.screen.line(line)
    return _exit.OK if fresh else _exit.DEGRADED


def _cells(row: Data) -> tuple[str, ...]:
    at, ttl = duration(real(row.get("t_s"))), duration(real(row.get("ttl_s")))
    return (
        number(row.get("boot")),
        at,
        *(text(row.get(key)) for key in ("reason", "detail", "phase")),
        ttl,
        number(row.get("seq")),
    )


def _power_cycle(call: Call) -> int:
    if not call.option("yes"):
        raise _exit.Usage("power-cycle cuts the power of this machine: add --yes")
    asked = _ask(call, "power-cycle")
    mine = part(asked, "cycle").get("number")
    found = part(_until(call, asked, lambda report: part(report, "cycle").get("state") != "asked"), "cycle")
    if found.get("number") != mine or found.get("state") != "confirmed":
        raise Refused(f"no power cycle: {text(found.get('detail')) or 'the microcontroller does not answer'}")
    if call.json:
        call.screen.json({"schema": SCHEMA, "cycle": found})
    else:
        call.screen.line(text(found.get("detail")))
    return _exit.OK


def _simulate(call: Call) -> int:
    words = [word for setting in call.option("set") for word in _option(setting)]
    link = ["--link", call.option("link")] if call.option("link") else []
    simulator.become(simulator.find(), ["--help"] if call.option("options") else [*link, *words])


def _option(setting: str) -> tuple[str, ...]:
    found = _SETTING.fullmatch(setting)
    if found is None:
        raise _exit.Usage(f"--set {setting}: NAME=NUMBER is wanted, as lose=50")
    return (f"--{found[1]}", found[2])


def _ask(call: Call, what: str) -> Data:
    try:
        found: Json = ask_patiently(call.place().control, {"verb": "mcu", "do": what}, _TIMEOUT_S)
    except BadRequest as error:
        if "unknown verb" not in str(error):
            raise
        raise Refused(f"agentd has no microcontroller: [mcu] in {call.config} names its port") from error
    if not isinstance(found, dict):
        raise BadRequest("the answer is no report of the microcontroller")
    return found


def _until(call: Call, found: Data, true: Callable[[Data], bool]) -> Data:
    """Ask until it is true, or patience ends; give the last report."""
    left = _PATIENCE_S
    while not true(found) and left > 0:
        pause(_STEP_S)
        left -= _STEP_S
        found = _ask(call, "status")
    return found
