"""The fault classes F1 to F5 and F7 to F11 of kernel timers, as one state machine over life-cycle events.

A timer's life: initialised, started (armed), expired (its callback runs), stopped, freed. `CHANGES` says what an event makes of
it, `RULES` in which state an event is a suspicion, and of which class. What is replayed in tests and what the kernel sends
goes through the same table. Pure: the events carry the time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

TIMERS = 4096  # followed at a time, as in the kernel


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on something is a suspicion; times in ns."""

    late_ns: int = 50_000_000
    run_ns: int = 20_000_000
    stuck_ns: int = 2_000_000_000
    past_starts: int = 250
    past_window_ns: int = 100_000_000


@dataclass(frozen=True, slots=True)
class Step:
    """One event of one timer. `what` is a key of `CHANGES`.

    `value` is, in ns: of a start the time until its expiry, of an entry its lateness; of a free the length of the block that
    begins at `timer`, in bytes. `work` is the work item of queue, work_start and work_end.
    """

    t_ns: int
    what: str
    timer: int = 0
    cpu: int = 0
    pid: int = 0
    callback: str = ""
    value: int = 0
    work: int = 0


@dataclass(frozen=True, slots=True)
class Suspicion:
    """An event in a state in which it should not be: `step` against `other`."""

    fault: str
    timer: int
    callback: str
    step: Step
    other: Step


@dataclass(slots=True)
class Life:
    """What is remembered of one timer."""

    timer: int
    callback: str = ""
    armed: Step | None = None
    running: Step | None = None
    stop: Step | None = None
    """Last deleted by, outside its callback."""
    rearmed: Step | None = None
    """Armed after `stop` by the work that the callback queues, or by the callback that was running meanwhile."""
    freed: Step | None = None
    cancelled: Step | None = None
    """What armed it, while a cancel may turn out to be the first half of its expiry: each expiry cancels first."""
    work: int = 0
    past: list[int] = field(default_factory=list)
    stuck: bool = False


class Lives:
    """All timers, all works, and what is suspicious of them."""

    def __init__(self, limits: Limits | None = None) -> None:
        """Know nothing yet."""
        self.limits = limits or Limits()
        self._lives: OrderedDict[int, Life] = OrderedDict()
        self.loops: dict[int, int] = {}
        """Work -> the timer whose callback queues it."""
        self.at_work: dict[int, int] = {}
        """Pid -> the work that it runs."""
        self.waits: dict[int, int] = {}
        """Timer whose callback waits -> the timer that it waits for."""

    def see(self, step: Step) -> list[Suspicion]:
        """Take one event in; give what is suspicious about it."""
        found = []
        for life in self._touched(step):
            for rule in RULES:
                other = rule.when(self, life, step) if step.what in rule.on else None
                if other is not None:
                    found.append(Suspicion(rule.fault, life.timer, life.callback, step, other))
            CHANGES[step.what](self, life, step)
        return found

    def _touched(self, step: Step) -> list[Life]:
        if step.what == "free":
            return [life for at, life in self._lives.items() if step.timer <= at < step.timer + step.value]
        if step.what == "tick":
            return list(self._lives.values())
        life = self._lives.get(step.timer)
        if life is None:
            life = self._lives[step.timer] = Life(step.timer)
            if len(self._lives) > TIMERS:
                self._lives.popitem(last=False)
        self._lives.move_to_end(step.timer)
        life.callback = step.callback or life.callback
        return [life]

    def life(self, timer: int) -> Life | None:
        """Give what is remembered of a timer."""
        return self._lives.get(timer)

    def inside(self, step: Step) -> Life | None:
        """Give the timer in whose callback `step` happens."""
        return next((life for life in self._lives.values() if life.running and not elsewhere(life, step)), None)


def elsewhere(life: Life, step: Step) -> Step | None:
    """Give the entry of the callback if it runs on another CPU, or in another thread (PREEMPT_RT)."""
    entry = life.running
    return entry if entry and (entry.cpu, entry.pid) != (step.cpu, step.pid) else None


def _armed(_lives: Lives, life: Life, _step: Step) -> Step | None:
    return None if life.rearmed else life.armed


def _elsewhere(_lives: Lives, life: Life, step: Step) -> Step | None:
    return elsewhere(life, step)


def _after_free(_lives: Lives, life: Life, _step: Step) -> Step | None:
    return life.freed


def _late(lives: Lives, life: Life, step: Step) -> Step | None:
    return life.armed if step.value > lives.limits.late_ns else None


def _overlong(lives: Lives, life: Life, step: Step) -> Step | None:
    return life.running if life.running and step.t_ns - life.running.t_ns > lives.limits.run_ns else None


def _stuck(lives: Lives, life: Life, step: Step) -> Step | None:
    if life.armed is None or life.stuck:
        return None
    return life.armed if step.t_ns - life.armed.t_ns - life.armed.value > lives.limits.stuck_ns else None


def _storm(lives: Lives, life: Life, step: Step) -> Step | None:
    if step.value > 0:
        return None
    recent = [t_ns for t_ns in life.past if step.t_ns - t_ns < lives.limits.past_window_ns]
    return (life.armed or life.running or step) if len(recent) + 1 == lives.limits.past_starts else None


def _undone_stop(_lives: Lives, life: Life, step: Step) -> Step | None:
    """Give the stop; an entry after a cancel was that cancel's reason, a free after one is in order."""
    armed = life.armed or (life.cancelled if step.what == "entry" else None)
    return life.stop if life.rearmed and armed else None


def _each_other(lives: Lives, life: Life, step: Step) -> Step | None:
    mine = lives.inside(step)
    return elsewhere(life, step) if mine and lives.waits.get(life.timer) == mine.timer else None


@dataclass(frozen=True, slots=True)
class Rule:
    """`fault` if, at an event `on`, `when` gives the other side."""

    fault: str
    on: tuple[str, ...]
    when: Callable[[Lives, Life, Step], Step | None]


RULES = (
    Rule("F1", ("init",), _armed),
    Rule("F1", ("init",), _elsewhere),
    Rule("F2", ("start",), _elsewhere),
    Rule("F3", ("delete",), _elsewhere),
    Rule("F4", ("free",), _armed),
    Rule("F4", ("start",), _after_free),
    Rule("F5", ("free",), _elsewhere),
    Rule("F7", ("entry",), _late),
    Rule("F7", ("exit",), _overlong),
    Rule("F8", ("tick",), _stuck),
    Rule("F9", ("start",), _storm),
    Rule("F10", ("entry", "free"), _undone_stop),
    Rule("F11", ("delete", "delete_sync"), _each_other),
)


def _init(_lives: Lives, life: Life, _step: Step) -> None:
    """Begin a new life. Starts in the past are counted on: timerfd_settime() initialises its timer each time."""
    life.armed = life.running = life.stop = life.rearmed = life.freed = None


def _start(lives: Lives, life: Life, step: Step) -> None:
    if life.rearmed and not life.armed:  # stopped once more, and then started
        life.rearmed = life.stop = None
    if life.stop:
        loop = life.work and lives.at_work.get(step.pid) == life.work
        own = life.running and not elsewhere(life, step)
        if (loop or own) and life.stop.pid != step.pid:
            life.rearmed = step
        else:  # whoever else arms it means to
            life.stop = life.rearmed = None
    life.armed, life.freed, life.stuck = step, None, False
    if step.value <= 0:
        life.past.append(step.t_ns)
        del life.past[: -lives.limits.past_starts]


def _entry(_lives: Lives, life: Life, step: Step) -> None:
    life.armed = life.rearmed = life.stop = life.cancelled = None
    life.running, life.stuck = step, False


def _exit(lives: Lives, life: Life, _step: Step) -> None:
    life.running = None
    lives.waits.pop(life.timer, None)


def _stopped(lives: Lives, life: Life, step: Step) -> None:
    """Take a stop; one within a callback is an expiry, or the callback's own business."""
    inside = lives.inside(step)
    if life.rearmed and step.what == "cancel":  # its expiry, or whoever stopped it stops it again: which, is seen at the entry
        life.cancelled, life.armed = life.armed, None
        return
    if inside is None:
        life.stop = step
    elif step.what in {"delete", "delete_sync"} and inside.timer != life.timer and elsewhere(life, step):
        lives.waits[inside.timer] = life.timer
    life.rearmed = None
    if step.what == "cancel" or not life.running:
        life.armed = None


def _free(_lives: Lives, life: Life, step: Step) -> None:
    life.armed = life.running = life.stop = life.rearmed = None
    life.freed = step


def _queue(lives: Lives, life: Life, step: Step) -> None:
    """Note a loop if the callback itself queues the work; and that who stopped the timer starts the loop again."""
    inside = lives.inside(step)
    if inside is not None:
        inside.work = step.work
        lives.loops[step.work] = inside.timer
        return
    looped = lives.life(lives.loops.get(step.work, 0)) or life
    if looped.stop and looped.stop.pid == step.pid:
        looped.stop = looped.rearmed = None


def _work_start(lives: Lives, _life: Life, step: Step) -> None:
    lives.at_work[step.pid] = step.work


def _work_end(lives: Lives, _life: Life, step: Step) -> None:
    lives.at_work.pop(step.pid, None)


def _tick(lives: Lives, life: Life, step: Step) -> None:
    life.stuck = life.stuck or _stuck(lives, life, step) is not None


CHANGES: dict[str, Callable[[Lives, Life, Step], None]] = {
    "init": _init,
    "start": _start,
    "entry": _entry,
    "exit": _exit,
    "cancel": _stopped,
    "delete": _stopped,
    "delete_sync": _stopped,
    "free": _free,
    "queue": _queue,
    "work_start": _work_start,
    "work_end": _work_end,
    "tick": _tick,
}


def replay(steps: Iterator[Step] | list[Step], limits: Limits | None = None) -> list[Suspicion]:
    """Give what is suspicious about a whole stream of events, in the order of their time."""
    lives = Lives(limits)
    return [found for step in steps for found in lives.see(step)]
