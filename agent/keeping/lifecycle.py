"""The life of one workload: what it is in, what ends that, what is to be done then. Pure; times are CLOCK_MONOTONIC in ns.

    stopped ─start─► starting ─READY, or exec if it says nothing─► running ◄─► reloading
                        ▲                                             │ exit
                        ├── within the budget: at once ◄──────────────┤
                        └── backoff, failed (the slowest step) ◄──────┘   stopping ─exit─► as above; stopped; held

A workload that exits is started again whatever its exit code. Each method gives the effects that the caller carries out, in
order; a `Spawn` is answered by `spawned` or `refused` at once.
"""

from __future__ import annotations

import signal

from agent.keeping import messages
from agent.keeping.beats import Beats
from agent.keeping.budget import NS, Budget, Wait
from agent.keeping.effects import Effects, Exit, Order, Signal, Spawn, Tell
from agent.keeping.plan import Plan
from agent.model import Data

START_S = 600.0  # to say READY=1: model servers take 92 s and more, and agentd, which learns how long, asks for an end before
STOP_S = 10.0  # from the first signal to SIGKILL; a workload may extend it
STOP_MOST_S = 60.0  # but no further than this, or it would decide when the gateway may go down
STUCK_S = 5.0  # from SIGKILL until it is said that the kernel holds the process (state D)
_NS_PER_MS = 1_000_000

PHASES = {"starting": "start", "reloading": "reload", "stopping": "stop"}


class Lifecycle:
    """One workload. `deadlines` are by what happens then: `start`, `assumed`, `kill`, `stuck`, `retry`, `confirm`."""

    def __init__(self, plan: Plan) -> None:
        """Begin stopped, and wanted."""
        self.plan = plan
        self.name = plan.name
        self.state = "stopped"
        self.reason = ""
        self.status = ""
        self.pid: int | None = None
        self.ready = False
        self.restarts = 0
        self.profile = ""
        self.wanted = True
        self.held = False
        self.again = False  # an order wants a new process once this one has ended
        self.stuck = False  # not even SIGKILL ended it
        self.pending: tuple[Order, int] | None = None
        self.deadlines: dict[str, int] = {}
        self.budget = Budget(plan.burst, plan.window_s)
        self.beats = Beats()
        self.watchdog_us = self._configured_watchdog()
        self.extend_ns: int | None = None
        self._began_ns = 0
        self._ending, self._ending_ns = "", 0  # what is told if it does not end, and since when it should
        self._ended: tuple[Exit, int] | None = None  # to be told once it is known what replaces it

    @property
    def due_ns(self) -> int | None:
        """When `due` wants to be called."""
        return min(self.deadlines.values(), default=None)

    @property
    def phase(self) -> str:
        """One of start, run, reload, stop: what its deadline depends on."""
        return PHASES.get(self.state, "run")

    def start(self, reason: str) -> Effects:
        """Begin a new process; the caller knows that there is none."""
        self.deadlines.clear()
        self.wanted, self.again = True, False
        self._change("starting", reason)
        return [Spawn(self.name, self.profile)]  # told by `spawned`: nothing may stand between a death and its replacement

    def spawned(self, pid: int, now_ns: int) -> Effects:
        """Note that the program runs as `pid`."""
        self.pid, self._began_ns, self.status, self.extend_ns, self.stuck = pid, now_ns, "", None, False
        self.watchdog_us = self._configured_watchdog()
        self.beats.forget()
        effects = self._tell_exit(pid, now_ns) + self.tell_state(now_ns)
        if self.plan.notify == "none":
            effects += self.now_ready(now_ns)
        else:
            self.deadlines["start"] = now_ns + int(START_S * NS)
        return effects + self.answer(now_ns, f"started as {pid}", verbs=("start", "restart", "degrade", "restore"))

    def refused(self, why: str, now_ns: int) -> Effects:
        """Note that the program cannot be executed."""
        effects = [*self._tell_exit(None, now_ns), self.notice("exec_failed", now_ns, {"why": why})]
        effects += self.answer(now_ns, why, ok=False)
        return effects + self._wait(self.budget.later(), now_ns, why)

    def adopt(self, pid: int, profile: str, restarts: int, now_ns: int, *, ready: bool) -> Effects:
        """Take over a process that an earlier keeper started.

        If that one did not know it as ready, READY=1 may have been lost with it: after the usual time it is taken as said.
        """
        self.pid, self.profile, self.restarts, self._began_ns = pid, profile, restarts, now_ns
        self.ready = ready or self.plan.notify == "none"
        if not self.ready:
            self.deadlines["assumed"] = now_ns + int(START_S * NS)
        state = "running" if self.ready else "starting"
        return [self.notice("adopted", now_ns, {"pid": pid}), *self.enter(state, "adopted from an earlier keeper", now_ns)]

    def now_ready(self, now_ns: int) -> Effects:
        """Note that it works."""
        self.ready = True
        for key in ("start", "assumed"):
            self.deadlines.pop(key, None)
        return self.enter("running", "", now_ns)

    def exited(self, end: Exit, now_ns: int) -> Effects:
        """Note that the main process ended, and decide what follows."""
        self.pid, self.ready = None, False
        self.deadlines.clear()
        self._ended = (end, now_ns)
        effects = self.answer(now_ns, f"{end.pid} ended {how(end)}", verbs=("abort", "terminate", "stop"))
        if not self.again and not (self.wanted and not self.held):
            effects += self._tell_exit(None, now_ns) + self.enter("held" if self.held else "stopped", how(end), now_ns)
            return effects + self.answer(now_ns, f"it is {self.state}", ok=False)
        if self.again:
            return self._replace(self.reason) + effects
        wait = self.budget.next(now_ns - self._began_ns, now_ns)
        if not wait.delay_s:
            return self._replace(how(end)) + effects
        effects += self._tell_exit(None, now_ns) + self._wait(wait, now_ns, how(end))
        effects.append(self.notice("budget_spent", now_ns, {"next_try_s": wait.delay_s, "restarts": self.restarts}))
        return effects + self.answer(now_ns, f"it {how(end)}; next try in {wait.delay_s} s", ok=False)

    def moved(self, pid: int, what: str, now_ns: int) -> Effects:
        """Note that another process is the main one: it said so (`main_pid`), or the first one forked away (`forked_away`)."""
        before, self.pid = self.pid, pid
        return [self.notice(what, now_ns, {"pid": pid, "before": before}), *self.tell_state(now_ns)]

    def end(self, number: int, reason: str, now_ns: int, grace_s: float = STOP_S) -> Effects:
        """Ask the process to end by signal `number`, and see to it that it does."""
        self._begin_end(f"ignores_{signal.Signals(number).name.lower()}", grace_s, now_ns)
        group = number == signal.SIGTERM
        first: Effects = [
            Signal(self.name, number, group),
            Signal(self.name, signal.SIGCONT, group),
        ]  # a stopped one must hear it
        return first + self.enter("stopping", reason, now_ns)

    def stopping(self, now_ns: int) -> Effects:
        """Note that it said STOPPING=1: it has as long as if it had been asked."""
        self._begin_end("stops_slowly", STOP_S, now_ns)
        return self.enter("stopping", "it says so", now_ns)

    def extend(self, usec: int, now_ns: int) -> None:
        """Note EXTEND_TIMEOUT_USEC: the deadline of its phase is this far away at least."""
        self.extend_ns = now_ns + usec * 1000
        for key in self.deadlines.keys() & {"start", "kill"}:
            most = self._ending_ns + int(STOP_MOST_S * NS) if key == "kill" else self.extend_ns
            self.deadlines[key] = max(self.deadlines[key], min(self.extend_ns, most))

    def due(self, now_ns: int) -> Effects:
        """Do what the deadlines that have passed are there for."""
        acts = {"start": self._late, "kill": self._kill, "stuck": self._stuck, "retry": self._retry}
        acts |= {"confirm": self._unconfirmed, "assumed": self.now_ready}
        effects: Effects = []
        for key in [key for key, at in self.deadlines.items() if at <= now_ns]:
            if self.deadlines.pop(key, None) is not None:  # one of the others may have made it void
                effects += acts[key](now_ns)
        return effects

    def enter(self, state: str, reason: str, now_ns: int) -> Effects:
        """Change the state and tell it."""
        self._change(state, reason)
        return self.tell_state(now_ns)

    def tell_state(self, now_ns: int) -> Effects:
        """Tell the state as it is."""
        return [Tell({"type": "state", "t_mono_ns": now_ns, **self.shown()})]

    def shown(self) -> Data:
        """Give what a `state` message says."""
        how_often: Data = {"restarts": self.restarts, "ready": self.ready, "status": self.status, "profile": self.profile}
        now: Data = {"state": self.state, "held": self.held, "pid": self.pid, "reason": self.reason}
        return {"name": self.name, **now, **how_often}

    def notice(self, what: str, now_ns: int, data: Data) -> Tell:
        """Give the message of something unusual."""
        return Tell(messages.notice(self.name, what, now_ns, data))

    def answer(self, now_ns: int, detail: str, *, ok: bool = True, verbs: tuple[str, ...] = messages.VERBS) -> Effects:
        """Answer the pending order, if it is of `verbs`."""
        if self.pending is None or self.pending[0].verb not in verbs:
            return []
        (order, since_ns), self.pending = self.pending, None
        return [Tell(messages.done(order.id, detail, (now_ns - since_ns) / _NS_PER_MS, ok=ok))]

    def _change(self, state: str, reason: str) -> None:
        before, self.state, self.reason = self.phase, state, reason
        if self.phase != before:
            self.beats.cut()

    def _begin_end(self, otherwise: str, grace_s: float, now_ns: int) -> None:
        self._ending, self._ending_ns = otherwise, now_ns
        self.deadlines = {"kill": now_ns + int(grace_s * NS)}

    def _replace(self, reason: str) -> Effects:
        self.restarts += 1
        return self.start(reason)

    def _wait(self, wait: Wait, now_ns: int, why: str) -> Effects:
        self.deadlines = {"retry": now_ns + wait.delay_s * NS}
        return self.enter("failed" if wait.slow else "backoff", f"{why}; next try in {wait.delay_s} s", now_ns)

    def _tell_exit(self, replaced: int | None, now_ns: int) -> Effects:
        if self._ended is None:
            return []
        (end, at_ns), self._ended = self._ended, None
        took = None if replaced is None else round((now_ns - at_ns) / _NS_PER_MS, 3)
        return [Tell(messages.exited(self.name, end, at_ns, replaced, took))]

    def _configured_watchdog(self) -> int | None:
        return int(self.plan.deadline_s * 1_000_000) if self.plan.notify == "watchdog" else None

    def _kill(self, now_ns: int) -> Effects:
        self.deadlines["stuck"] = now_ns + int(STUCK_S * NS)
        waited = {"waited_s": round((now_ns - self._ending_ns) / NS, 3)}
        return [
            Signal(self.name, signal.SIGKILL, group=True),
            self.notice(self._ending, now_ns, {"pid": self.pid, **waited}),
        ]

    def _stuck(self, now_ns: int) -> Effects:
        self.stuck = True
        why = "SIGKILL does not end it: the kernel holds it in an uninterruptible sleep"
        effects = [*self.enter("stopping", why, now_ns), self.notice("unkillable", now_ns, {"pid": self.pid})]
        return effects + self.answer(now_ns, why, ok=False)

    def _late(self, now_ns: int) -> Effects:
        waited = {"waited_s": round((now_ns - self._began_ns) / NS, 3)}
        return [
            self.notice("start_timeout", now_ns, {"pid": self.pid, **waited}),
            *self.end(signal.SIGTERM, "not ready in time", now_ns),
        ]

    def _retry(self, _now_ns: int) -> Effects:
        return self._replace(self.reason.partition(";")[0])

    def _unconfirmed(self, now_ns: int) -> Effects:
        self.again = True
        return self.end(signal.SIGTERM, f"restarted for profile {self.profile or 'full'}", now_ns, grace_s=1.0)


def how(end: Exit) -> str:
    """Say in words how a process ended."""
    if end.signal is not None:
        return f"by signal {end.signal}{' with a core dump' if end.core else ''}"
    return "unseen, as it was not a child of this keeper" if end.code is None else f"with exit code {end.code}"
