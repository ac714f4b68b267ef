"""gatewarden-keeper: the parent of the workloads, for as long as the gateway is up.

    python -m agent.keeper --config FILE

SIGTERM or SIGINT: stop all workloads in order, and end. SIGHUP: check the configuration and execute the program anew, as after
an upgrade; the workloads run on, and are adopted (docs/keeper.md). Killed, it leaves them running for the next keeper.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from agent.errors import ConfigError, GatewardenError
from agent.keeping import messages
from agent.keeping.crew import Crew
from agent.keeping.plan import plans, rooms
from agent.linux import keeperfolder, sdnotify, spawn, trim, unixserver
from agent.linux.clock import SystemClock
from agent.linux.configcheck import Check
from agent.linux.keeperserver import KeeperServer
from agent.linux.loop import EpollLoop
from agent.linux.lossyjournal import LossyJournal
from agent.place import DEFAULT_CONFIG, require_trust
from agent.ports import Journal
from agent.tending.tender import Tender

USAGE = "usage: python -m agent.keeper [--config FILE]"
# What systemd told the keeper about itself, and what every workload gets anew.
_OURS = ("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "MAINPID")
FED = 3  # times in each period that systemd grants


def serve(config: Path, journal: Journal) -> None:
    """Keep the workloads of `config` until told to end. Raises GatewardenError."""
    require_trust(config)
    plain = Check(config).wait()
    crew, place = Crew(plans(plain)), rooms(plain)
    if fault := place.too_long(tuple(crew.lives)):
        raise GatewardenError(fault)
    keeperfolder.prepare(place.folder)
    listening = unixserver.listen(place.socket)
    spawn.adopt_orphans()
    loop = EpollLoop(lambda name, error: journal.line("error", f"{name}: {type(error).__name__}: {error}", {}))
    env = {key: value for key, value in os.environ.items() if key not in _OURS}
    clock = SystemClock()
    tender = Tender(loop, clock, crew, place, journal, f"{os.getpid()}-{clock.mono_ns()}", env)
    tender.desk.open(KeeperServer(loop, listening, messages.LIMIT, tender.desk.asked, tender.desk.refusal))
    _on_signals(loop, tender, config, journal)
    tender.begin()
    if (period := sdnotify.watchdog_s()) is not None:
        loop.every(period / FED, lambda: sdnotify.notify("WATCHDOG=1"), "keeper.watchdog")
    trim.trim()
    sdnotify.notify("READY=1")
    journal.line("info", "ready", {"workloads": len(crew.lives), "socket": str(place.socket)})
    loop.run()
    tender.put_away()
    place.socket.unlink(missing_ok=True)


def _on_signals(loop: EpollLoop, tender: Tender, config: Path, journal: Journal) -> None:
    def end() -> None:
        sdnotify.notify("STOPPING=1")
        tender.close()

    def check() -> None:
        begun = Check(config)
        loop.on_readable(begun.pidfd, lambda: anew(begun), "keeper.check")

    def anew(checked: Check) -> None:
        loop.forget(checked.pidfd)
        try:
            checked.result()
        except ConfigError as error:
            journal.line("error", f"not executed anew: {error}", {})
            return
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])  # noqa: S606 - our own command line

    loop.on_signal(signal.SIGCHLD, tender.offspring.reap)
    loop.on_signal(signal.SIGTERM, end)
    loop.on_signal(signal.SIGINT, end)
    loop.on_signal(signal.SIGHUP, check)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the keeper; exit code 2 if it cannot start."""
    given = list(sys.argv[1:] if argv is None else argv)
    if given[:1] == ["--config"] and len(given) == 2:
        config = Path(given[1])
    elif given:
        sys.stderr.write(f"{USAGE}\n")  # by hand: argparse would stay in memory for as long as the gateway is up
        return 0 if given in (["-h"], ["--help"]) else 2
    else:
        config = DEFAULT_CONFIG
    journal = LossyJournal()
    try:
        serve(config, journal)
    except GatewardenError as error:
        journal.line("error", str(error), {})
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
