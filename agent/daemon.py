"""agentd: composition only. Start-up is in a fixed order: configuration, store, probes, serve, ready.

Exit codes: 0 ended by a signal, 2 a configuration or a folder that cannot be used, or another agentd runs on the same folders.
"""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent import actions, checks, config, control
from agent.config import Config, Mcu
from agent.errors import ConfigError, GatewardenError
from agent.linux import child, facts, http, ready, sdnotify, unixserver
from agent.linux.alarm import Alarm
from agent.linux.clock import SystemClock, boot_id, chance, nonce
from agent.linux.clockstep import ClockStep
from agent.linux.handed import Hands
from agent.linux.journal import StderrJournal
from agent.linux.loop import EpollLoop
from agent.linux.peer import Reply
from agent.linux.pidwatch import PidWatch
from agent.linux.unixserver import Credentials
from agent.linux.worker import Worker
from agent.model import Json, Sighting
from agent.outside.outlook import outlook
from agent.pipeline import Pipeline
from agent.place import require_trust
from agent.policies.response import Response
from agent.policies.revival import Revival
from agent.ports import Action, Detector
from agent.probing import Probing
from agent.reporting import Reporting
from agent.service import Service
from agent.status import Identity
from agent.supervision import actionports, workloads
from agent.supervision.consequences import Consequences
from agent.supervision.overseeing import Overseeing
from agent.supervision.pace import Pace
from agent.supervision.recovering import URGENT, Recovering
from agent.supervision.remembering import BoundedIntents
from agent.supervision.supervising import Supervising
from agent.telemetry import exposition
from agent.watchdogs.guarding import Guarding

if TYPE_CHECKING:  # it is imported where there is one
    from agent.watchdogs.mculink import McuLink

USAGE = 2
_TICK_S = 10.0  # detectors, own cost and health do not wait for a slow metrics period


class Daemon:
    """Everything that lives as long as agentd does; `stack` ends it in the reverse order."""

    def __init__(self, settings: Config, config_path: Path, stack: ExitStack) -> None:
        """Build all parts; nothing is loaded or served before `run`. Raises GatewardenError naming what is in the way."""
        self._settings, self._path, self._stack = settings, config_path, stack
        self._journal = StderrJournal()
        self._clock = SystemClock()
        self._loop = EpollLoop(self._fault)
        stack.callback(self._loop.close)
        for folder in (settings.paths.state_dir, settings.paths.runtime_dir):
            ready.folder(folder)
        boot = boot_id()
        self._control = unixserver.listen(settings.paths.control_socket)
        self._reporting = Reporting(settings, self._loop, self._clock, boot, chance, self._incident)
        stack.callback(self._reporting.close)
        store = self._reporting.spool
        worker = Worker("actions", URGENT)
        stack.callback(worker.close)
        detectors = _detectors(settings)
        acts: dict[str, Action] = {}
        self._recovering = Recovering(settings, boot, self._clock, detectors, worker.submit, self._noticed)
        self._pipeline = Pipeline(
            boot_id=boot,
            clock=self._clock,
            store=store,
            detectors=detectors,
            policies=[Response(), self._recovering.ladder, Revival(self._recovering.ladder.held)],
            actions=acts,
            submit=self._recovering.submit,
            back=self._loop.call_soon_threadsafe,
            fault=self._fault,
            done=self._recovering.done,
        )
        self._pipeline.arm = Alarm(self._loop, self._clock, self._look, "alarm").set
        self._overseeing = self._overseen(boot, worker)
        stack.callback(self._overseeing.close)
        self._watched = workloads.watched(settings)
        owners = workloads.Owners(settings.workload)
        self._label, self._overseeing.supervising.born = owners.label, owners.note
        self._probing = Probing(settings, self._loop, self._pipeline, store.cursor, self._label)
        stack.callback(self._probing.close)
        tools = actionports.tools(settings, self._clock, self._journal, self._pipeline, self._probing, self._recovery())
        acts |= actions.bound(tools)
        self._service = Service(
            identity=_identity(settings, boot, self._facts()),
            clock=self._clock,
            pipeline=self._pipeline,
            probing=self._probing,
            overseeing=self._overseeing,
            telemetry=self._reporting,
            budget_pct=settings.budget.cpu_pct,
            status_file=settings.paths.status_file,
            facts=self._facts,
            say=self._incident,
            fault=self._fault,
        )

    def run(self) -> None:
        """Start the threads, attach the probes, serve until a signal."""
        settings = self._settings
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.on_signal(number, self._loop.stop)
        self._probing.start(self._path, may_load=checks.may_load(self._facts()))
        if why := self._probing.all_off():
            self._service.identity = replace(self._service.identity, tier="E", tier_reason=why)
        self._service.start()
        self._reporting.start(self._service.birth())
        self._overseeing.start()
        self._serve_control()
        self._serve_metrics()
        self._watch_deaths()
        self._watch_clock()
        period_s = settings.metrics.period_s
        self._loop.every(min(period_s, _TICK_S), self._service.tick, "tick")
        self._loop.every(period_s, self._sample_soon, "sample soon")
        sdnotify.notify("READY=1")
        self._say("ready", state=str(self._service.status()["state"]), tier=self._service.identity.tier)
        self._loop.run()
        sdnotify.notify("STOPPING=1")
        self._say("stopping")

    def _look(self) -> None:
        """Look at silences with fresh readings of who was held up meanwhile."""
        self._overseeing.look()
        self._pipeline.alarm()

    def _overseen(self, boot: str, worker: Worker) -> Overseeing:
        settings, told, recovering = self._settings, self._told, self._recovering
        guarding = Guarding(settings, boot, self._clock, self._loop, recovering.later, told, self._noticed)
        cursor = self._reporting.spool.cursor
        supervising = Supervising(settings, self._loop, self._clock, self._pipeline, cursor, self._noticed)
        mcu = self._mcu(settings.mcu) if settings.mcu else None
        recovering.effects = Consequences(
            keeper=supervising.keeper,
            commands=frozenset(one.name for one in settings.workload if one.command),
            guarding=guarding,
            mcu_held=mcu.hold if mcu else lambda _on: None,
            presence=self._reporting.presence,
            submit=worker.submit,
            told=told,
            say=self._noticed,
        )
        rows = [one for one in (*self._pipeline.detectors, *self._pipeline.policies) if hasattr(one, "row")]
        seen = outlook(settings, self._loop, self._clock, supervising, worker.submit, told, self._incident)
        seen.services.supervised = recovering.supervised
        supervising.views = [*(one.row for one in rows), recovering.view, seen.services.row, seen.checking.row]
        pace = Pace(self._loop, min(settings.metrics.period_s, _TICK_S))
        return Overseeing(self._loop, supervising, recovering, guarding, seen, pace, mcu)

    def _mcu(self, section: Mcu) -> McuLink:
        from agent.linux.serial import Line  # noqa: PLC0415 - pyserial is imported only where there is an MCU
        from agent.watchdogs.mculink import McuLink  # noqa: PLC0415

        return McuLink(Line(section.port, section.baud), self._loop, self._clock, self._told, nonce)

    def _told(self, found: Sighting) -> None:
        self._pipeline.take([found])

    def _sample_soon(self) -> None:
        """Sample half a period after the tick: the two shall not add up to a peak in one second."""
        self._loop.once(self._settings.metrics.period_s / 2, self._service.sample, "sample")

    def _facts(self) -> facts.Facts:
        return facts.read(self._settings.paths, config=self._path, btf_path=self._settings.bpf.btf_path)

    def _watch_clock(self) -> None:
        def stepped(found: Sighting) -> None:
            self._pipeline.take([found])
            self._reporting.retry()  # a certificate that was not yet valid may be now

        self._stack.callback(ClockStep(self._loop, self._clock, stepped).close)

    def _serve_control(self) -> None:
        verbs = self._service.verbs()

        def handler(line: bytes, _caller: Credentials) -> Reply:
            return Reply(control.answer(line, verbs, self._fault))

        path = self._settings.paths.control_socket
        listener = unixserver.serve(self._loop, self._control, handler, "control")
        self._stack.callback(lambda: listener.close())  # noqa: PLW0108 - whichever it is by then

        def keep() -> None:
            """Listen anew if somebody removed the socket: nobody could reach us any more."""
            nonlocal listener
            if not path.is_socket():
                listener.close()
                listener = unixserver.serve(self._loop, unixserver.listen(path), handler, "control")
                self._incident(f"{path} was gone: listening anew")

        self._loop.every(_TICK_S, keep, "keep control socket")

    def _serve_metrics(self) -> None:
        listen = self._settings.metrics.listen
        if listen:
            if lacks := exposition.lacks():
                self._incident(f"{lacks.reason}; {lacks.remedy}")
                self._service.pageless = lacks
            self._stack.callback(http.serve(self._loop, http.listen(listen), self._service.page).close)

    def _watch_deaths(self) -> None:
        """Without the eBPF probe, watched processes are held by pidfds."""
        if not self._probing.fallen_back("process_exit"):
            return
        self._probing.serve_instead("process_exit", "pidfd")
        watch = PidWatch(self._loop, self._clock, self._watched, self._died)
        self._stack.callback(watch.close)
        watch.look()
        self._loop.every(min(self._settings.metrics.period_s, _TICK_S), watch.look, "look for processes")

    def _died(self, found: Sighting) -> None:
        self._probing.count_instead("process_exit")
        self._pipeline.take([self._label(found)])

    def _recovery(self) -> actions.Recovery:
        parts, broker = self._overseeing, Hands(self._settings.paths.broker_socket)
        words = BoundedIntents(parts.guarding.words, self._recovering.later)
        keeper, threads = parts.supervising.keeper, parts.supervising.threads
        return actionports.recovery(self._settings.workload, broker, keeper, parts.mcu, words, threads)

    def _fault(self, name: str, error: Exception) -> None:
        self._journal.line("error", "fault", {"in": name, "error": f"{type(error).__name__}: {error}"})

    def _incident(self, text: str) -> None:
        self._journal.line("warning", "telemetry", {"said": text})

    def _noticed(self, text: str) -> None:
        """From any thread: say what an operator should know of workloads and watchdogs."""
        self._loop.call_soon_threadsafe(lambda: self._journal.line("warning", "supervision", {"said": text}))

    def _say(self, message: str, **fields: Json) -> None:
        self._journal.line("info", message, fields)


def _identity(settings: Config, boot: str, found: facts.Facts) -> Identity:
    tier = checks.tier(found)
    return Identity(settings.gateway.site, settings.gateway.name, boot, tier.letter, tier.reason, os.getpid())


def _detectors(settings: Config) -> list[Detector]:
    chosen = settings.detectors
    return [importlib.import_module(f"agent.detectors.{name}").make(chosen.options[name]) for name in chosen.enabled]


def main() -> int:
    """Run agentd until SIGTERM or SIGINT; with `--check`, only check the configuration."""
    parser = argparse.ArgumentParser(
        prog="agentd",
        description="The Gatewarden agent, in the foreground until SIGTERM or Ctrl-C.",
        epilog="Exit codes: 0 ended by a signal; 2 the configuration, a folder or the machine cannot be used, or another "
        "agentd runs on the same folders. To ask a running agent: agentctl status.",
    )
    parser.add_argument("--config", type=Path, default=config.DEFAULT_PATH, metavar="FILE", help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="check the configuration and exit")
    arguments = parser.parse_args()
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # there is nothing to reload or to dump: they must not end the agent
    signal.signal(signal.SIGTERM, lambda _number, _frame: sys.exit(0))  # until the loop takes over
    os.umask(0o027)  # what we write is for root and group gatewarden, whoever starts us
    try:
        ready.machine()
        require_trust(arguments.config)
        settings = config.from_plain(child.validated(arguments.config))
        if arguments.check:
            return 0
        with ExitStack() as stack:
            Daemon(settings, arguments.config, stack).run()
    except (ConfigError, GatewardenError) as error:
        sys.stderr.write(f"agentd: {error}\n")
        return USAGE
    return 0


if __name__ == "__main__":
    sys.exit(main())
