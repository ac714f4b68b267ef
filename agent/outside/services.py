"""Workloads whose parent is systemd, docker or podman (`unit =`, `container =`): watched, and asked for when something happens.

A pidfd on the main process tells of its end at once; then its parent is asked, again and again with growing pauses until it has
settled. What runs is not asked. That somebody else starts a unit is seen by its cgroup; a container is asked ever later.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

from agent.config import Workload
from agent.errors import GatewardenError
from agent.linux import cgroups
from agent.linux.loop import EpollLoop
from agent.linux.servicestate import ServiceState
from agent.linux.timers import Timer
from agent.model import Data, Severity, Sighting
from agent.ports import Clock

SOURCE = "agent"
FIRST_S, LONGEST_S = 0.05, 5.0
"""Pauses between two questions while its parent is at it."""
RARELY_S = 300.0
"""Between two questions about a unit that does not run: its cgroup tells when it does."""
CONTAINER_S = 60.0
"""Likewise of a container, of which nothing tells: pauses grow up to this."""
SETTLED = frozenset({"running", "stopped", "failed"})
SEVERITIES: dict[str, Severity] = {"failed": "error", "backoff": "warning"}
_NS = 1_000_000_000


@dataclass(slots=True)
class _Service:
    workload: Workload
    state: ServiceState | None = None
    why: str = ""
    """Why its state is not known."""
    pidfd: int | None = None
    watched: int | None = None
    """The process behind the pidfd."""
    ended: int | None = None
    """The process that ended, until somebody told what became of it."""
    ended_ns: int = 0
    asked_ns: int = 0
    pause_s: float = FIRST_S
    timer: Timer | None = None


class Services:
    """One per agentd, on the loop's thread. `ask` blocks, and is called where `submit(job)` runs it."""

    def __init__(
        self,
        workloads: Sequence[Workload],
        loop: EpollLoop,
        clock: Clock,
        ask: Callable[[Workload], ServiceState],
        submit: Callable[[Callable[[], None]], bool],
        told: Callable[[Sequence[Sighting]], None],
    ) -> None:
        """Ask nothing yet. `told` takes events."""
        self._loop, self._clock, self._ask, self._submit, self._told = loop, clock, ask, submit, told
        self._all = {one.name: _Service(one) for one in workloads if one.unit is not None or one.container is not None}
        self._wanted: dict[str, None] = {}
        self._asking = False
        self._closed = False
        self._folders: cgroups.UnitFolders | None = None
        self.supervised: Callable[[Collection[str]], None] = lambda _names: None
        """Hears which ones their parent restarts by itself, when that changes."""
        self.unknown: Callable[[str, str], None] = lambda _name, _why: None
        """Hears of which one nothing is known, and why."""
        self._masters: frozenset[str] = frozenset()

    def start(self) -> None:
        """Ask for all."""
        names = {one.workload.unit: name for name, one in self._all.items() if one.workload.unit is not None}
        self._folders = cgroups.UnitFolders(self._loop, names, lambda unit: self._moved(names[unit]))
        for name in self._all:
            self._want(name)

    def tick(self) -> None:
        """Ask for those that do not run, now and then."""
        now = self._clock.mono_ns()
        for name, one in self._all.items():
            if one.pidfd is None and one.timer is None and now - one.asked_ns >= RARELY_S * _NS:
                self._want(name)

    def close(self) -> None:
        """Watch nothing any more."""
        self._closed = True
        if self._folders is not None:
            self._folders.close()
        for one in self._all.values():
            self._forget(one)
            if one.timer is not None:
                one.timer.cancel()

    def row(self, name: str, now_ns: int) -> Data:  # noqa: ARG002 - of the protocol of views
        """Give what `agentctl workloads` shows besides: who else restarts it."""
        one = self._all.get(name)
        if one is None or one.state is None or not one.state.supervised:
            return {}
        return {"supervised": True, "by": one.workload.unit or one.workload.container}

    def _want(self, name: str) -> None:
        self._all[name].asked_ns = self._clock.mono_ns()
        self._wanted[name] = None
        self._kick()

    def _kick(self) -> None:
        if self._wanted and not self._asking:
            names = list(self._wanted)
            self._asking = self._submit(partial(self._ask_for, names))
            if self._asking:
                self._wanted.clear()

    def _ask_for(self, names: Sequence[str]) -> None:
        """Ask, on a thread."""
        for name in names:
            try:
                found: ServiceState | str = self._ask(self._all[name].workload)
            except GatewardenError as error:
                found = str(error)
            except Exception as error:  # noqa: BLE001 - else nobody would ever be asked again
                found = f"internal error: {type(error).__name__}: {error}"
            self._loop.call_soon_threadsafe(partial(self._heard, name, found))
        self._loop.call_soon_threadsafe(self._asked)

    def _asked(self) -> None:
        self._asking = False
        self._kick()

    def _heard(self, name: str, found: ServiceState | str) -> None:
        if self._closed:
            return
        one = self._all[name]
        if isinstance(found, str):
            one.why = found
            self.unknown(name, found)
            self._again(one)
            return
        before, one.state = one.state, found
        events = self._ends(one, before, found)
        one.why, before = "", None if one.why else before
        if before is None or (before.state, before.pid) != (found.state, found.pid):
            events.append(self._state(one, found.state, found.pid))
        if events:
            self._told(events)
        if found.pid is not None and found.pid not in {one.watched, one.ended}:
            self._watch(one, found.pid)
        tells = found.state == "running" or one.workload.unit is not None
        if found.state in SETTLED and one.ended is None and tells:
            one.pause_s = FIRST_S
        else:
            self._again(one)
        self._tell_masters()

    def _ends(self, one: _Service, before: ServiceState | None, found: ServiceState) -> list[Sighting]:
        """Give the end of the main process, once its parent has taken note of it."""
        if one.ended is None or found.pid == one.ended:
            return []
        pid, one.ended = one.ended, None
        events = []
        # Whoever restarts by itself counts that; the same count with another process is what somebody ordered.
        ordered = found.state in ("stopped", "stopping") or (
            found.state not in {"failed", "backoff"} and before is not None and found.restarts <= before.restarts
        )
        if ordered:
            events.append(self._state(one, "stopping", pid))
        known = found.last_pid in (pid, None)
        replaced_ms = round((self._clock.mono_ns() - one.ended_ns) / 1e6, 1) if found.pid is not None else None
        data: Data = {"pid": pid, "code": found.code if known else None, "signal": found.signal if known else None}
        data |= {"core": found.core if known else None, "replaced_pid": found.pid, "replaced_ms": replaced_ms}
        name = one.workload.name
        events.append(Sighting(one.ended_ns, SOURCE, "workload.exit", name, "info" if ordered else "warning", data))
        if found.pid is not None and replaced_ms is not None:
            restarted: Data = {"pid": found.pid, "ms": replaced_ms}
            events.append(Sighting(self._clock.mono_ns(), SOURCE, "workload.restarted", name, "info", restarted))
        return events

    def _state(self, one: _Service, state: str, pid: int | None) -> Sighting:
        assert one.state is not None
        data: Data = {"state": state, "pid": pid, "reason": one.state.reason, "restarts": one.state.restarts}
        data |= {"ready": state == "running", "status": ""}
        at = one.ended_ns if pid is not None and state == "stopping" else self._clock.mono_ns()
        return Sighting(at, SOURCE, "workload.state", one.workload.name, SEVERITIES.get(state, "info"), data)

    def _watch(self, one: _Service, pid: int) -> None:
        self._forget(one)
        try:
            one.pidfd = os.pidfd_open(pid)
        except OSError:  # it has ended meanwhile
            one.ended, one.ended_ns = pid, self._clock.mono_ns()
            return
        one.watched = pid
        self._loop.on_readable(one.pidfd, partial(self._died, one), f"pidfd {one.workload.name}"[:32])

    def _died(self, one: _Service) -> None:
        one.ended, one.ended_ns = one.watched, self._clock.mono_ns()
        self._forget(one)
        one.pause_s = FIRST_S
        self._want(one.workload.name)

    def _moved(self, name: str) -> None:
        """Ask for a unit that was started or has ended, soon: systemd is at it."""
        one = self._all[name]
        if one.pidfd is None:
            one.pause_s = FIRST_S
            self._again(one)

    def _forget(self, one: _Service) -> None:
        fd, one.pidfd, one.watched = one.pidfd, None, None
        if fd is not None:
            self._loop.forget(fd)
            with contextlib.suppress(OSError):
                os.close(fd)

    def _again(self, one: _Service) -> None:
        """Ask again soon, then ever later."""
        if one.timer is not None:
            return

        def due() -> None:
            one.timer = None
            self._want(one.workload.name)

        one.timer = self._loop.once(one.pause_s, due, "ask for a service")
        settled = one.state is not None and one.state.state in SETTLED
        one.pause_s = min(2 * one.pause_s, CONTAINER_S if settled else LONGEST_S)

    def _tell_masters(self) -> None:
        found = frozenset(name for name, one in self._all.items() if one.state is not None and one.state.supervised)
        if found != self._masters:
            self._masters = found
            self.supervised(found)
