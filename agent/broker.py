"""gatewarden-broker: the few verbs that need root, for the user `gatewarden` and nobody else.

    python -m agent.broker --config FILE [--idle-exit]

Listens on the socket that systemd passed, else on `<runtime_dir>/broker.sock`; ends after 30 s without a request when it
was socket-activated or told so. The verbs are in `agent/rootverbs/`.
"""

from __future__ import annotations

import argparse
import os
import pwd
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from agent import rootverbs
from agent.errors import BadRequest, GatewardenError, Refused
from agent.linux import unixserver, wire
from agent.linux.journal import StderrJournal
from agent.linux.loop import EpollLoop
from agent.linux.peer import Listener, Reply
from agent.linux.timers import Timer
from agent.linux.unixserver import Credentials
from agent.model import Data, Severity
from agent.place import DEFAULT_CONFIG, find, require_trust
from agent.ports import Journal
from agent.rootverbs import Verb

USER = "gatewarden"
IDLE_S = 30.0
VERBS = rootverbs.table(DEFAULT_CONFIG)


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
        if (self.listener is not None and self.listener.busy) or rootverbs.busy():
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
    verbs = rootverbs.table(config, partial(journal.line, "info", "broker errand"))

    def handle(line: bytes, caller: Credentials) -> Reply:
        if idle is not None:
            idle.rearm()
        return answer(line, caller, journal, verbs)

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
