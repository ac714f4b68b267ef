"""The main processes of the workloads: a pidfd for each, how they ended, what they left behind."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from agent.linux import family
from agent.linux.loop import EpollLoop

_ENDING_MS = 20
_PATIENCE_S = 0.25  # for all that seem to be ending together: meanwhile nobody else's death is seen
_DEEPEST = 64  # generations that a sweep follows


class Ended(NamedTuple):
    """How a process ended; all None and False if it was not our child."""

    pid: int
    code: int | None = None
    signal: int | None = None
    core: bool = False


@dataclass(frozen=True, slots=True)
class Process:
    """A main process; its group goes down with it. `started` (ticks since boot) tells it from a later one of its number."""

    pid: int
    pidfd: int
    group: int
    started: int


class Offspring:
    """Processes by the name of their workload; `died(name)` is called on the loop when one has ended."""

    def __init__(self, loop: EpollLoop, died: Callable[[str], None], marker: Callable[[str], bytes]) -> None:
        """`marker(name)` is an entry of the environment that only the processes of `name` have."""
        self.processes: dict[str, Process] = {}
        self._loop = loop
        self._died = died
        self._marker = marker

    def watch(self, name: str, pid: int) -> bool:
        """Take `pid` as the main process of `name`; False if it is gone."""
        found = family.stat(pid)
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        if found is None:
            os.close(pidfd)
            return False
        self.forget(name)
        self.processes[name] = Process(pid, pidfd, found.group, found.started)
        self._loop.on_readable(pidfd, partial(self._died, name), f"pidfd {name}")
        return True

    def forget(self, name: str) -> None:
        """Watch the main process of `name` no longer."""
        process = self.processes.pop(name, None)
        if process is not None:
            self._loop.forget(process.pidfd)
            os.close(process.pidfd)

    def send(self, name: str, number: int, *, group: bool) -> None:
        """Send a signal to the main process of `name`, with `group` to its whole process group. It has not been reaped yet."""
        process = self.processes.get(name)
        if process is None:
            return
        with suppress(OSError):
            signal.pidfd_send_signal(process.pidfd, number)
        if group and process.group != os.getpgrp():
            with suppress(OSError):
                os.killpg(process.group, number)

    def dismiss(self, pid: int, started: int, grace_s: float) -> None:
        """End a process that is nobody's main one any more, and its group: SIGTERM, and SIGKILL if that is not enough."""

        def send(number: int) -> None:
            found = family.stat(pid)
            if found is not None and found.started == started and found.group != os.getpgrp():
                with suppress(OSError):
                    os.killpg(found.group, number)

        send(signal.SIGTERM)
        self._loop.once(grace_s, partial(send, signal.SIGKILL), "dismiss")

    def how_ended(self, name: str) -> Ended | None:
        """Look how the main process of `name` ended, without reaping it: until then its number is nobody else's.

        None: it has not ended.
        """
        pid = self.processes[name].pid
        try:
            found = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return Ended(pid)
        if found is None:
            return None
        if found.si_code == os.CLD_EXITED:
            return Ended(pid, code=found.si_status)
        return Ended(pid, signal=found.si_status, core=found.si_code == os.CLD_DUMPED)

    def reap(self) -> None:
        """Take the exit status of each child that has ended: main processes by `died`, orphans without a word."""
        with suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                name = next((name for name, process in self.processes.items() if process.pid == found.si_pid), None)
                if name is not None:
                    self._died(name)
                else:
                    self.bury(found.si_pid)

    @staticmethod
    def bury(pid: int) -> None:
        """Take the exit status of `pid`, if it is a child of ours that has ended."""
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    def belongs(self, name: str, pid: int) -> bool:
        """Whether `pid` is one of the processes of `name`."""
        process = self.processes.get(name)
        return process is not None and family.belongs(pid, process.pid, self._marker(name))

    def left_by(self, name: str, until_s: float | None = None) -> list[int]:
        """Give the processes that `name` left to us when their parents ended, oldest first.

        For those that seem to be ending it waits until `until_s` (of the monotonic clock), or for a moment.
        """
        until_s = _soon() if until_s is None else until_s
        known = {process.pid for process in self.processes.values()}
        while True:
            entries = {pid: family.environ(pid) for pid in family.children() if pid not in known}
            found = [pid for pid, entry in entries.items() if self._marker(name) in entry]
            # One that ends has no environment any more, and its own children become ours only when it has ended.
            ending = [pid for pid, entry in entries.items() if not entry and _ends(pid, until_s)] if not found else []
            if not ending:
                return found
            for pid in ending:
                self.bury(pid)

    def sweep(self, name: str, group: int, *, anywhere: bool) -> list[int]:
        """Kill what `name` left outside of `group` (which is dead), and what is left by that; give their numbers.

        `anywhere`: its main process was no child of ours, so what it left is not ours either; and none has replaced it yet.
        What has not ended in a moment is killed, and not waited for.
        """
        killed, until_s = list[int](), _soon()
        find = self._of if anywhere else partial(self.left_by, until_s=until_s)
        for _ in range(_DEEPEST):
            left = [pid for pid in self._outside(find(name), group) if pid not in killed]
            for pid in left:
                with suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            killed += left
            if not [pid for pid in left if _ends(pid, until_s)]:
                break
        return killed

    def _of(self, name: str) -> list[int]:
        return [pid for pid in family.pids() if self._marker(name) in family.environ(pid)]

    @staticmethod
    def _outside(pids: Sequence[int], group: int) -> list[int]:
        """Give those of `pids` that live and are not of process group `group`."""
        return [pid for pid in pids if (found := family.stat(pid)) is not None and found.group != group]

    def strays(self, names: Sequence[str]) -> dict[str, list[int]]:
        """Give, by workload, the processes on this machine that lead a session, oldest first: an earlier keeper's."""
        found: dict[str, list[tuple[int, int]]] = {name: [] for name in names}
        for pid in family.pids():
            known = family.stat(pid)
            entries = family.environ(pid) if known is not None and known.session == pid and known.state != "Z" else ()
            for name in names if entries else ():
                if known is not None and self._marker(name) in entries:
                    found[name].append((known.started, pid))
        return {name: [pid for _started, pid in sorted(rows)] for name, rows in found.items()}


def _soon() -> float:
    return time.monotonic() + _PATIENCE_S


def _ends(pid: int, until_s: float) -> bool:
    """Wait a moment for the end of a child that seems to be ending; False if it goes on (its environment is empty)."""
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    try:
        return bool(poll.poll(min(_ENDING_MS, max(0.0, until_s - time.monotonic()) * 1000)))
    finally:
        os.close(pidfd)
