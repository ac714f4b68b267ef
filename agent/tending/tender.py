"""The keeper's hands: carries out the effects that its thinking part gives, and tells it what happened."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress

from agent import atomic
from agent.errors import GatewardenError
from agent.keeping import notify
from agent.keeping.crew import Crew
from agent.keeping.effects import Effect, Effects, Exit, Signal, Spawn, WriteProfile
from agent.keeping.hearing import heard
from agent.keeping.history import History
from agent.keeping.lifecycle import STOP_S
from agent.keeping.plan import Rooms
from agent.linux import spawn
from agent.linux.fdstore import MOST, FdStore
from agent.linux.loop import EpollLoop
from agent.linux.notifysocket import Datagram, NotifySocket
from agent.linux.offspring import Offspring
from agent.linux.timers import Timer
from agent.model import Data
from agent.ports import Clock, Journal
from agent.tending.desk import Desk
from agent.tending.memory import Memory, Record

_NS = 1_000_000_000


class Tender:
    """Everything runs on the loop; `done` is called when all workloads have been stopped after a `close`."""

    def __init__(
        self, loop: EpollLoop, clock: Clock, crew: Crew, rooms: Rooms, journal: Journal, keeper: str, env: Mapping[str, str]
    ) -> None:
        """Touch nothing yet. `keeper` names this run; `env` is what workloads get besides their own."""
        self.desk = Desk(loop, clock, journal, crew, History(keeper), self.act)
        self.offspring = Offspring(loop, self._died, self._marker)
        self._loop = loop
        self._clock = clock
        self._crew = crew
        self._rooms = rooms
        self._env = env
        self._memory = Memory(rooms.memory)
        self._fds = FdStore()
        self._sockets: dict[str, NotifySocket] = {}
        self._untold: list[Data] = []
        self._timer: Timer | None = None
        self._armed_ns: int | None = None

    def begin(self) -> None:
        """Open the notify sockets, adopt what an earlier keeper left running, start the rest. Raises GatewardenError."""
        for name in self._crew.lives:
            path = self._rooms.notify(name)
            self._sockets[name] = NotifySocket(self._loop, path, notify.LIMIT, self._hears(name))
        known, strays = self._memory.load(), self.offspring.strays(tuple(self._crew.lives))
        for name in self._crew.lives:
            self._adopt(name, known.get(name), strays[name])
        for name in known.keys() - self._crew.lives.keys():  # no longer configured
            if (pid := known[name].pid) is not None:
                self.offspring.dismiss(pid, known[name].started, STOP_S)
        self.offspring.reap()
        self.act(self._crew.begin(self._clock.mono_ns()))

    def close(self) -> None:
        """Stop all workloads, in order; the loop ends when that is done."""
        self.act(self._crew.close(self._clock.mono_ns()))

    def put_away(self) -> None:
        """Remove the notify sockets."""
        for sock in self._sockets.values():
            sock.close()

    def act(self, effects: Effects) -> None:
        """Carry out `effects` and all that follows from them; told is last, when the next keeper would know it, too."""
        while effects:
            self._carry_out_all(effects)
            effects = self._crew.settle(self._clock.mono_ns())
        self._arm()
        self._memory.save({name: row for name in self._crew.lives if (row := self._row(name)) is not None})
        untold, self._untold = self._untold, []
        for message in untold:
            self.desk.tell(message)
        if self._crew.done:
            self._loop.stop()

    def _row(self, name: str) -> Data | None:
        """Give what the next keeper must know; None: that it is to be started says the configuration."""
        life, process = self._crew.lives[name], self.offspring.processes.get(name)
        wanted = life.wanted or self._crew.closing  # that this keeper ends is nobody's wish about a workload
        if process is None and wanted and not life.held:
            return None
        return {
            "pid": process.pid if process else None,
            "started": process.started if process else 0,
            "ready": life.ready,
            "restarts": life.restarts,
            "profile": life.profile,
            "held": life.held,
            "wanted": wanted,
        }

    def _adopt(self, name: str, record: Record | None, strays: list[int]) -> None:
        now, life = self._clock.mono_ns(), self._crew.lives[name]
        if record is not None:
            life.held, life.wanted = record.held, record.wanted
        if record is not None and record.pid is not None and self.offspring.watch(name, record.pid):
            if self.offspring.processes[name].started == record.started:
                self.act(life.adopt(record.pid, record.profile, record.restarts, now, ready=record.ready))
                return
            self.offspring.forget(name)
        if strays and self.offspring.watch(name, strays[0]):  # of a keeper that was killed before it could write it down
            self.act(life.adopt(strays[0], "", 0, now, ready=False))
            return
        self._carry_out(WriteProfile(name, ""))

    def _died(self, name: str) -> None:
        now, life = self._clock.mono_ns(), self._crew.lives[name]
        ended = self.offspring.how_ended(name)
        if ended is None:
            return
        self._sockets[name].drain()  # its last words, and the descriptors that it leaves
        if self.offspring.processes[name].pid != ended.pid:  # the last word was MAINPID
            self.offspring.bury(ended.pid)
            return
        heirs = self.offspring.left_by(name) if ended.code == 0 and life.state != "stopping" else []
        if heirs and self.offspring.watch(name, heirs[0]):
            self.offspring.bury(ended.pid)
            self.act(life.moved(heirs[0], "forked_away", now))
            return
        group = self.offspring.processes[name].group
        self.offspring.send(name, signal.SIGKILL, group=True)
        self.offspring.bury(ended.pid)
        self.offspring.forget(name)
        adopted = ended.code is None and ended.signal is None
        if adopted:
            self._sweep(name, group, anywhere=True)
        self.act(life.exited(Exit(*ended), now))
        if not adopted:
            self._sweep(name, group, anywhere=False)

    def _sweep(self, name: str, group: int, *, anywhere: bool) -> None:
        """End what the last main process of `name` left behind outside of its `group`, which has been killed."""
        if left := self.offspring.sweep(name, group, anywhere=anywhere):
            data = {"count": len(left), "first": left[0]}
            self.act([self._crew.lives[name].notice("left_behind", self._clock.mono_ns(), {**data})])

    def _hears(self, name: str) -> Callable[[Datagram], None]:
        return lambda datagram: self._heard(name, datagram)

    def _heard(self, name: str, datagram: Datagram) -> None:
        now, life = self._clock.mono_ns(), self._crew.lives[name]
        if life.pid is None:
            return  # the last words of a process that is gone
        if not datagram.whole:
            self.act([life.notice("oversized", now, {"pid": datagram.pid, "limit": notify.LIMIT})])
        elif not self.offspring.belongs(name, datagram.pid):
            self.act([life.notice("bad_sender", now, {"pid": datagram.pid})])
        else:
            self._said(name, notify.parse(datagram.data), datagram, now)

    def _said(self, name: str, said: notify.Said, datagram: Datagram, now: int) -> None:
        life = self._crew.lives[name]
        telling = said.reloading or said.status not in {None, life.status}
        quietly = telling and not self.desk.thrift.allows(f"{name} state", now)
        effects: Effects = []
        if said.remove:
            self._fds.remove(name, said.fd_name)
        elif said.store and (refused := self._fds.take(name, datagram.fds, said.fd_name)):
            effects.append(life.notice("fds_refused", now, {"refused": refused, "most": MOST}))
        if said.main_pid not in {None, life.pid}:
            effects += self._moved(name, said.main_pid or 0, now)
        self.act(effects + heard(life, said, now, quietly=quietly))
        if said.beat or said.work is not None:
            self.desk.beat(name)

    def _moved(self, name: str, pid: int, now: int) -> Effects:
        life = self._crew.lives[name]
        if pid != os.getpid() and self.offspring.belongs(name, pid) and self.offspring.watch(name, pid):
            return life.moved(pid, "main_pid", now)
        return [life.notice("bad_main_pid", now, {"pid": pid})]

    def _carry_out_all(self, effects: Effects) -> None:
        for effect in effects:
            self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        if isinstance(effect, Spawn):
            self._carry_out_all(self._spawned(effect))
        elif isinstance(effect, Signal):
            self.offspring.send(effect.name, effect.number, group=effect.group)
        elif isinstance(effect, WriteProfile):
            with suppress(OSError):  # then it is not confirmed either, and the workload is restarted with the profile
                atomic.write(self._rooms.profile(effect.name), effect.profile.encode(), 0o640)
        else:
            self._untold.append(effect.message)

    def _spawned(self, effect: Spawn) -> Effects:
        life = self._crew.lives[effect.name]
        env = {**self._env, **life.plan.env, **self._rooms.environment(life.plan, effect.profile)}
        try:
            self._sockets[effect.name].renew()
            pid = spawn.spawn(life.plan.command, env, self._fds.of(effect.name))
        except GatewardenError as error:
            return life.refused(str(error), self._clock.mono_ns())
        except (OSError, ValueError) as error:  # ValueError: a NUL, a name with =
            why = f"{life.plan.command[0][:200]}: {getattr(error, 'strerror', None) or error}"
            return life.refused(why, self._clock.mono_ns())
        now = self._clock.mono_ns()
        if not self.offspring.watch(effect.name, pid):  # a child that is not reaped cannot be gone: no descriptor is left
            with suppress(OSError):
                os.killpg(pid, signal.SIGKILL)
            return life.refused("no descriptor is left to watch it by", now)
        return life.spawned(pid, now)

    def _marker(self, name: str) -> bytes:
        return b"NOTIFY_SOCKET=" + bytes(self._rooms.notify(name))

    def _arm(self) -> None:
        due = self._crew.due_ns
        if due == self._armed_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._armed_ns, self._timer = due, None
        if due is not None:
            self._timer = self._loop.once((due - self._clock.mono_ns()) / _NS, self._due, "keeper.due")

    def _due(self) -> None:
        self._armed_ns = None
        self.act(self._crew.due(self._clock.mono_ns()))
