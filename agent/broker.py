"""gatewarden-broker: the few verbs that need root, for the user `gatewarden` and nobody else.

    python -m agent.broker --config FILE [--idle-exit]

Listens on the socket that systemd passed, else on `<runtime_dir>/broker.sock`; ends after 30 s without a request when it
was socket-activated or told so. Adding a verb: a function below, a line in `VERBS` with the check of each argument, a method in
`agent/linux/brokerclient.py`, a paragraph in docs/security.md.
"""

from __future__ import annotations

import argparse
import os
import pwd
import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from agent.collider import target as places
from agent.errors import BadRequest, GatewardenError, Refused
from agent.linux import kallsyms, kmsg, pstore, unixserver, watchdog, wire
from agent.linux.brokerclient import ADDRESSES
from agent.linux.child import Measurement
from agent.linux.journal import StderrJournal
from agent.linux.loop import EpollLoop
from agent.linux.peer import Listener, Reply
from agent.linux.timers import Timer
from agent.linux.unixserver import Credentials
from agent.model import Data, Json, Severity
from agent.place import DEFAULT_CONFIG, find, require_trust
from agent.ports import Journal

USER = "gatewarden"
IDLE_S = 30.0
MEASURED_S = 120.0  # of one measurement
MEASUREMENT = Measurement()


class Given(NamedTuple):
    """What a verb gives: a result, and a file descriptor to hand over."""

    result: Json
    fd: int | None = None


@dataclass(frozen=True, slots=True)
class Verb:
    """`run` is called with exactly the arguments named here, each as its check gave it; a check raises BadRequest."""

    arguments: Mapping[str, Callable[[Json], object]]
    run: Callable[..., Given]


def kmsg_open() -> Given:
    """Open the kernel's log for reading and hand it over."""
    try:
        return Given(None, kmsg.open_kmsg())
    except OSError as error:
        raise GatewardenError(f"/dev/kmsg: {error.strerror}") from error


def ksym(addresses: list[int]) -> Given:
    """Name kernel addresses: a list of `name+0x1f [module]` or null, in their order."""
    return Given(list(kallsyms.read(addresses)))


def kernel_addresses(value: Json) -> list[int]:
    """Check 1 to 256 unsigned 64-bit integers."""
    if not isinstance(value, list) or not 1 <= len(value) <= ADDRESSES:
        raise BadRequest(f"addresses: a list of 1 to {ADDRESSES} integers is needed")
    numbers = [item for item in value if type(item) is int and 0 < item < 1 << 64]
    if len(numbers) < len(value):
        raise BadRequest("addresses: only integers from 1 to 2^64 - 1 are allowed")
    return numbers


def watchpoint(what: str, target: str, seconds: float) -> Given:
    """Start `agentctl race prove|hunt` in a child and hand over the pipe that its JSON comes out of.

    The caller gets a result, never a watchpoint: whoever holds the fd of one could arm it again without its budget.
    """
    if what == "hunt":
        return Given(None, MEASUREMENT.start(["race", "hunt", "--json", f"--seconds={seconds}", f"--module={target}"]))
    parsed = places.parse(target)
    return Given(None, MEASUREMENT.start(["race", "prove", "--json", f"--seconds={seconds}", parsed.text]))


def watchdog_open(device: str) -> Given:
    """Open a watchdog and hand it over: from then on it counts, and its holder must feed it."""
    path = f"/dev/{device}"
    try:
        return Given(None, watchdog.open_fd(path))
    except OSError as error:
        return Given({"errno": error.errno})  # busy, absent, …: the caller has a state for each


def watchdog_name(value: Json) -> str:
    """Check the name of a watchdog's device file."""
    if not isinstance(value, str) or not re.fullmatch(r"watchdog[0-9]{0,2}", value, re.ASCII):
        raise BadRequest("device: want watchdog or watchdogN")
    return value


def pstore_read() -> Given:
    """Give the dumps that the kernel kept over a reset: a key, the reason, and the words of a panic. Nothing else of them."""
    try:
        return Given([list[Json](record.plain()) for record in pstore.read()])
    except OSError as error:
        raise GatewardenError(f"{error.filename}: {error.strerror}") from error


def measuring(value: Json) -> str:
    """Check what to measure."""
    if value not in {"prove", "hunt"} or not isinstance(value, str):
        raise BadRequest("what: want prove or hunt")
    return value


def watched(value: Json) -> str:
    """Check a place, or a module's name (empty: any)."""
    if not isinstance(value, str) or not re.fullmatch(r"[*\w.$:+-]{0,256}", value, re.ASCII):
        raise BadRequest("target: want [*]SYMBOL[+OFF][:LEN], or the name of a module")
    return value


def measured_s(value: Json) -> float:
    """Check how long."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MEASURED_S:
        raise BadRequest(f"seconds: want a number above 0 .. {MEASURED_S:g}")
    return float(value)


VERBS: Mapping[str, Verb] = {
    "kmsg.open": Verb({}, kmsg_open),
    "ksym": Verb({"addresses": kernel_addresses}, ksym),
    "pstore.read": Verb({}, pstore_read),
    "watchdog.open": Verb({"device": watchdog_name}, watchdog_open),
    "watchpoint": Verb({"what": measuring, "target": watched, "seconds": measured_s}, watchpoint),
}


def authorise(caller: Credentials) -> None:
    """Let the user `gatewarden` pass. Raises Refused for everybody else, root included."""
    try:
        uid = pwd.getpwnam(USER).pw_uid
    except KeyError as error:
        raise Refused(f"user {USER} does not exist: systemd-sysusers deploy/sysusers.d/gatewarden.conf") from error
    if caller.uid != uid or uid == 0:
        hint = " (root can do all this itself)" if caller.uid == 0 else ""
        raise Refused(f"the broker serves user {USER} only, not uid {caller.uid}{hint}")


def checked(name: str, given: Data, verbs: Mapping[str, Verb] = VERBS) -> tuple[Verb, dict[str, object]]:
    """Give the verb and its arguments, each checked. Raises BadRequest."""
    verb = verbs.get(name)
    if verb is None:
        raise BadRequest(f"unknown verb {name[:64]!r}, known: {', '.join(verbs)}")
    if given.keys() != verb.arguments.keys():
        raise BadRequest(f"{name}: takes exactly the arguments: {', '.join(verb.arguments) or 'none'}")
    return verb, {key: check(given[key]) for key, check in verb.arguments.items()}


def answer(line: bytes, caller: Credentials, journal: Journal, verbs: Mapping[str, Verb] = VERBS) -> Reply:
    """Serve one request and journal it, whatever becomes of it; a reply that cannot be journaled is withheld."""
    fields: Data = {"verb": "?", "arguments": {}, "uid": caller.uid, "pid": caller.pid}
    try:
        authorise(caller)
        name, arguments = wire.request(line)
        fields |= {"verb": name[:64], "arguments": arguments}
        verb, good = checked(name, arguments, verbs)
        given = verb.run(**good)
    except GatewardenError as error:
        return _journaled(Reply(wire.failure(error)), "warning", fields | {"result": str(error)}, journal)
    except Exception as error:  # noqa: BLE001 - a fault of ours is a call too: it is journaled, and the caller hears of it
        said = f"internal error: {type(error).__name__}: {error}"[:500]
        return _journaled(Reply(wire.failure(GatewardenError(said))), "error", fields | {"result": said}, journal)
    return _journaled(Reply(wire.success(given.result), given.fd), "info", fields | {"result": "ok"}, journal)


def _journaled(reply: Reply, severity: Severity, fields: Data, journal: Journal) -> Reply:
    try:
        journal.line(severity, "broker", fields)
    except OSError as error:
        if reply.fd is not None:
            os.close(reply.fd)
        return Reply(wire.failure(Refused(f"the call cannot be journaled: {error.strerror}")))
    return reply


@dataclass(slots=True)
class IdleExit:
    """Stops the loop when `seconds` have passed without a request and no client is being served."""

    loop: EpollLoop
    seconds: float
    listener: Listener | None = None
    timer: Timer | None = None

    def rearm(self) -> None:
        """Start anew: a request came."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.once(self.seconds, self._expired, "broker.idle")

    def _expired(self) -> None:
        if (self.listener is not None and self.listener.busy) or MEASUREMENT.busy:
            self.rearm()
        else:
            self.loop.stop()


def serve(config: Path, idle_s: float | None, journal: Journal) -> None:
    """Listen and answer until idle (systemd's socket: always after `IDLE_S`), SIGTERM or SIGINT. Raises GatewardenError."""
    loop = EpollLoop(lambda name, error: journal.line("error", f"{name}: {type(error).__name__}: {error}", {}))
    require_trust(config)
    path = find(config).broker
    given = unixserver.inherited()
    idle = IdleExit(loop, idle_s or IDLE_S) if idle_s or given else None

    def handle(line: bytes, caller: Credentials) -> Reply:
        if idle is not None:
            idle.rearm()
        return answer(line, caller, journal)

    listener = unixserver.serve(loop, given or unixserver.listen(path), handle, "broker")
    if idle is not None:
        idle.listener = listener
        idle.rearm()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.on_signal(number, loop.stop)
    loop.run()
    listener.close()
    if given is None:
        path.unlink(missing_ok=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the broker; exit code 2 if it cannot start."""
    parser = argparse.ArgumentParser(prog="python -m agent.broker", description="The few verbs that need root.")
    parser.add_argument("--config", type=Path, default=DEFAULT_CONFIG, metavar="FILE", help="agent.toml (default: %(default)s)")
    parser.add_argument(
        "--idle-exit", type=float, nargs="?", const=IDLE_S, metavar="SECONDS", help="end after SECONDS (30) without a request"
    )
    options = parser.parse_args(argv)
    journal = StderrJournal()
    try:
        serve(options.config, options.idle_exit, journal)
    except GatewardenError as error:
        journal.line("error", str(error), {})
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
