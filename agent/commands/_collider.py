"""What `race prove` and `race hunt` share: watchpoints, symbols, decoded writers, and the way through the broker."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator

from agent.collider.case import Case
from agent.collider.inquiry import Inquiry
from agent.collider.instruction import UNKNOWN, Operation, decode
from agent.collider.report import report
from agent.collider.symbols import Symbols
from agent.collider.target import Watched
from agent.commands._call import Call
from agent.errors import BadRequest, Refused
from agent.linux import kallsyms
from agent.linux.brokerclient import BrokerClient
from agent.linux.clock import SystemClock, pause
from agent.linux.watchpoint import Watchpoints
from agent.model import Data

AFTER = 4096  # bytes of a function behind the writing instruction that are looked at for jumps back
MOST_JSON = 16 * 1024 * 1024
POINTER = 8


class Bench:
    """Holds the loaded watchpoints; `symbols` are those of its start."""

    def __init__(self, watch: Watchpoints, symbols: Symbols) -> None:
        self.watch = watch
        self.symbols = symbols
        self.inquiry = Inquiry(watch, SystemClock(), pause)
        self._operations: dict[int, Operation] = {}

    def case(self, watched: Watched) -> Case:
        """Open a case."""
        return Case(watched, self._decode)

    def report(self, case: Case) -> Data:
        """Give what is known of a case."""
        return report(case, self.symbols.label, self.watch.stack)

    def pointer(self, address: int) -> int | None:
        """Read a pointer from kernel memory."""
        raw = self.watch.peek(address, POINTER)
        return int.from_bytes(raw, "little") if len(raw) == POINTER else None

    def _decode(self, ip: int) -> Operation:
        if ip not in self._operations:
            function = self.symbols.at(ip - 1)
            size = self.symbols.room(function, ip - function.address + AFTER) if function else 0
            code = self.watch.peek(function.address, size) if function else b""
            self._operations[ip] = decode(code, function.address, ip) if function else UNKNOWN
        return self._operations[ip]


@contextlib.contextmanager
def bench() -> Iterator[Bench]:
    """Load the watchpoints for the length of the block. Raises a ProbeError."""
    with kallsyms.PATH.open(encoding="ascii", errors="replace") as lines:
        symbols = Symbols(lines)
    decode(b"\x90", 0, 1)  # capstone comes in here, not in the middle of a window
    with contextlib.closing(Watchpoints()) as watch:
        yield Bench(watch, symbols)


def by_broker(call: Call, verb: str, target: str) -> Data | None:
    """Have the broker measure where we are not root; None if we are. Raises what the broker says, or what stopped it."""
    if os.geteuid() == 0:
        return None
    with os.fdopen(BrokerClient(call.place().broker).watchpoint(verb, target, call.option("seconds")), "rb") as pipe:
        said = pipe.read(MOST_JSON).decode(errors="replace")
    try:
        found = json.loads(said)
    except ValueError as error:
        lines = said.strip().splitlines() or ["the measurement ended without a word"]
        raise Refused(lines[-1].removeprefix("agentctl: ")) from error
    if not isinstance(found, dict):
        raise BadRequest("the broker's measurement gave no report")
    return {key: value for key, value in found.items() if key != "schema"}
