"""All workloads together: who may start, who must wait, in which order they stop; and their signs of life in one message."""

from __future__ import annotations

import signal
from collections.abc import Sequence

from agent.keeping import messages
from agent.keeping.effects import Effects, Order, Tell
from agent.keeping.lifecycle import Lifecycle
from agent.keeping.messages import BudgetChange
from agent.keeping.orders import obey
from agent.keeping.plan import Plan
from agent.model import Data


class Crew:
    """The workloads by name. Pure, as `Lifecycle` is."""

    def __init__(self, plans: Sequence[Plan]) -> None:
        """All are stopped."""
        self.lives = {plan.name: Lifecycle(plan) for plan in plans}
        self.closing = False

    @property
    def done(self) -> bool:
        """Whether a close has come to its end."""
        return self.closing and not any(life.pid and not life.stuck for life in self.lives.values())

    @property
    def due_ns(self) -> int | None:
        """When `due` wants to be called."""
        return min((at for life in self.lives.values() if (at := life.due_ns) is not None), default=None)

    def begin(self, now_ns: int) -> Effects:
        """Start those that were not adopted, as soon as what they come after is ready; not what an order wants otherwise."""
        effects: Effects = []
        for life in self.lives.values():
            if life.state == "stopped" and (life.held or not life.wanted):
                effects += life.enter("held" if life.held else "stopped", "as an earlier keeper was told", now_ns)
            elif life.state == "stopped":
                waits = self._waits(life)
                effects += life.enter("starting", f"waits for {waits}" if waits else "", now_ns)
        return effects + self.settle(now_ns)

    def settle(self, now_ns: int) -> Effects:
        """Let follow what a change of state allows: called after every event."""
        if self.closing:
            return self._stop_next(now_ns)
        effects: Effects = []
        for life in self.lives.values():
            if life.state == "starting" and life.pid is None and not self._waits(life):
                effects += life.start("")
        return effects

    def close(self, now_ns: int) -> Effects:
        """Stop all: each when those that come after it have ended."""
        self.closing = True
        effects: Effects = []
        for life in self.lives.values():
            life.wanted = life.again = False
            if life.pid is None and life.state != "stopped":
                life.deadlines.clear()
                effects += life.enter("stopped", "the keeper ends", now_ns)
        return effects + self._stop_next(now_ns)

    def obey(self, order: Order, now_ns: int) -> Effects:
        """Carry out an order of agentd."""
        life = self.lives.get(order.name)
        if life is None or self.closing:
            why = "the keeper ends" if life else f"no such workload, known: {', '.join(self.lives) or 'none'}"
            return [Tell(messages.done(order.id, why[:500], 0, ok=False))]
        if order.verb == "start" and life.pid is None and (waits := self._waits(life)):
            return self._later(life, order, waits, now_ns)
        return obey(life, order, now_ns)

    def change(self, budget: BudgetChange) -> None:
        """Take other limits for immediate restarts; an unknown workload is none of ours."""
        if budget.name in self.lives:
            self.lives[budget.name].budget.change(budget.burst, budget.window_s)

    def due(self, now_ns: int) -> Effects:
        """Do what is due."""
        return [effect for life in self.lives.values() for effect in life.due(now_ns)]

    def states(self, now_ns: int) -> Effects:
        """Tell all states."""
        return [effect for life in self.lives.values() for effect in life.tell_state(now_ns)]

    def beats(self, names: Sequence[str]) -> Data:
        """Give the signs of life of `names` since they were last asked for."""
        lives = [self.lives[name] for name in names]
        return {
            life.name: {
                **life.beats.take(),
                "watchdog_us": life.watchdog_us,
                "extend_until_ns": life.extend_ns,
                "phase": life.phase,
            }
            for life in lives
        }

    def _waits(self, life: Lifecycle) -> str:
        """Give what it comes after and is not ready."""
        return ", ".join(name for name in life.plan.after if not self.lives[name].ready)

    @staticmethod
    def _later(life: Lifecycle, order: Order, waits: str, now_ns: int) -> Effects:
        """Start it as soon as those are ready (`settle`), which may take longer than anybody waits for an answer."""
        effects = life.answer(now_ns, f"superseded by {order.verb}", ok=False)
        life.wanted = True
        life.deadlines.clear()
        effects += life.enter("starting", f"waits for {waits}", now_ns)
        return [*effects, Tell(messages.done(order.id, f"starts when {waits} is ready", 0, ok=True))]

    def _stop_next(self, now_ns: int) -> Effects:
        alive = [life for life in self.lives.values() if life.pid and not life.stuck]
        needed = {name for life in alive for name in life.plan.after}
        effects: Effects = []
        for life in alive:
            if life.name not in needed and life.state != "stopping":
                effects += life.end(signal.SIGTERM, "the keeper ends", now_ns)
        return effects
