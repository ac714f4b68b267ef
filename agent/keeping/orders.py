"""What agentd may order, as one table. Every order is answered by one `done`, at once or when what it wants has happened.

| verb | the process | done when |
|---|---|---|
| abort | SIGABRT to its main process (a core, a stack), SIGKILL if that is not enough | it ended |
| terminate | SIGTERM to its group, SIGKILL if that is not enough | it ended |
| restart | as terminate if it runs, then a new one whatever the budget says | the new one runs |
| stop | as terminate, and none until `start` or `restart` | it ended |
| start | a new one, if there is none, as soon as those in its `after` are ready | it runs, or waits for those |
| degrade | told to use `profile`; restarted with it unless it confirms within 3 s | confirmed, or the new one runs |
| restore | the same, with the full profile | likewise |
| hold | stays as it is; if it exits, it is not started again | at once |
| resume | ends a hold | at once |
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Mapping

from agent.keeping.budget import NS
from agent.keeping.effects import Effects, Order, WriteProfile
from agent.keeping.lifecycle import STOP_S, Lifecycle

CONFIRM_S = 3.0
GRACE_S = 1.0  # a workload that did not confirm a profile gets no longer: service is to be back within 5 s
ABORT_S = 5.0  # a core dump takes a moment


def obey(life: Lifecycle, order: Order, now_ns: int) -> Effects:
    """Carry out `order`; one that is still pending is given up."""
    effects = life.answer(now_ns, f"superseded by {order.verb}", ok=False)
    life.pending = (order, now_ns)
    return effects + TABLE[order.verb](life, order, now_ns)


def _signal(number: int, grace_s: float) -> Callable[[Lifecycle, Order, int], Effects]:
    def run(life: Lifecycle, order: Order, now_ns: int) -> Effects:
        if life.pid is None:
            return life.answer(now_ns, f"it does not run: {life.state}", ok=False)
        return life.end(number, order.reason or order.verb, now_ns, grace_s)

    return run


def _restart(life: Lifecycle, order: Order, now_ns: int) -> Effects:
    life.wanted = True
    if life.pid is None:
        life.restarts += 1
        return life.start(order.reason or order.verb)
    life.again = True
    return life.end(signal.SIGTERM, order.reason or order.verb, now_ns)


def _stop(life: Lifecycle, order: Order, now_ns: int) -> Effects:
    life.wanted = life.again = False
    if life.pid is not None:
        return life.end(signal.SIGTERM, order.reason or order.verb, now_ns)
    life.deadlines.clear()
    return [*life.enter("stopped", order.reason or order.verb, now_ns), *life.answer(now_ns, "it did not run")]


def _start(life: Lifecycle, order: Order, now_ns: int) -> Effects:
    if life.pid is None:
        return life.start(order.reason or order.verb)
    life.wanted = True
    life.again = life.again or life.state == "stopping"
    return life.answer(now_ns, f"runs already, as {life.pid}") if not life.again else []


def _degrade(life: Lifecycle, order: Order, now_ns: int) -> Effects:
    if order.profile and order.profile not in life.plan.degrade:
        known = ", ".join(life.plan.degrade) or "none"
        return life.answer(now_ns, f"no such profile {order.profile!r}, configured: {known}", ok=False)
    life.profile = order.profile
    effects: Effects = [WriteProfile(life.name, order.profile)]
    if life.pid is None:
        return effects + life.answer(now_ns, "it does not run; the profile holds from its next start")
    if life.state == "stopping":
        life.again = life.wanted
        return effects if life.again else effects + life.answer(now_ns, "it is being stopped")
    life.deadlines["confirm"] = now_ns + int(CONFIRM_S * NS)
    return effects


def _hold(life: Lifecycle, order: Order, now_ns: int) -> Effects:
    life.held = True
    if life.pid is None and life.state != "stopped":
        life.deadlines.clear()
        return [*life.enter("held", order.reason or order.verb, now_ns), *life.answer(now_ns, "held")]
    return life.answer(now_ns, "held: if it exits, it is not started again")


def _resume(life: Lifecycle, order: Order, now_ns: int) -> Effects:
    life.held = False
    effects = life.answer(now_ns, "resumed")
    return effects + (life.start(order.reason or order.verb) if life.state == "held" else [])


TABLE: Mapping[str, Callable[[Lifecycle, Order, int], Effects]] = {
    "abort": _signal(signal.SIGABRT, ABORT_S),
    "terminate": _signal(signal.SIGTERM, STOP_S),
    "restart": _restart,
    "stop": _stop,
    "start": _start,
    "degrade": _degrade,
    "restore": _degrade,
    "hold": _hold,
    "resume": _resume,
}
