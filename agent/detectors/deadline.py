"""deadline: workloads that are silent for longer than they ever were, less the time in which the machine starved them.

    sign of life ── deadline over ──► suspected ── a second later, still silent ──► critical ── sign of life, or an end ──► ok

The second look is there because agentd may have been held up itself: by then it has read what waited in its sockets (and the
keeper tells beats once a second). What a sign of life is depends on the workload (`liveness` of `workload.known`): a beat, or
that it became ready. Not watched: who has none, and all of the keeper's while it is away or does not answer (docs/watchdog.md).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from agent import narrow
from agent.detectors._adaptive import PHASES, Estimate, Phase, all_restored, plain
from agent.detectors._cases import SUBJECTS, number, word
from agent.detectors._silence import NS, OF_STATE, PROVEN, Known, Silence
from agent.detectors._starvation import Totals
from agent.errors import StoreError
from agent.model import Data, Event, Finding, Json

NAME = "deadline"
CONFIRM_NS = 5 * NS // 4  # the keeper may tell a beat a second late
LOOK_NS = NS // 2  # between two looks at a silence that starvation prolongs
GATEWAY, KEEPER = "gateway", "keeper_link"
_SOONEST_S, _LONGEST_S = 0.001, 86400.0


@dataclass(frozen=True, slots=True)
class Options:
    """`[detectors.deadline]`: the start value is `deadline_s` of each `[[workload]]`."""


class Deadline:
    """`ports.Detector`, `ports.Timed` and `ports.Remembers`."""

    name = NAME

    def __init__(self) -> None:
        """Start without a workload; `workload.known` names them."""
        self._all: dict[str, Silence] = {}
        self._learned: dict[str, dict[Phase, Estimate]] = {}
        self._totals = Totals()
        self._own: dict[str, Totals] = {}
        self._up_ns: dict[str, int | None] = {}
        self._told_ns: dict[str, int] = {}
        self._holds: dict[str, int] = {}

    def see(self, event: Event) -> Iterable[Finding]:
        """Take one event or sample in."""
        handle = _HANDLERS.get(event.kind)
        return () if handle is None else list(handle(self, event))

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """Learn what was healthy, and look at every silence."""
        found = []
        for name, one in self._all.items():
            if one.pending:
                if self._held(name, now_ns) or one.patience_ns > one.since_ns:
                    one.pending.clear()
                elif self._totals.at_ns > one.pending_base.at_ns:
                    one.settle(self._counters(name))
            found += self._judged(name, one, now_ns)
        return found

    def next_due_ns(self) -> int | None:
        """Give the time of the next look that may change something."""
        return min((at for name, one in self._all.items() if (at := self._due(name, one)) is not None), default=None)

    def row(self, name: str, now_ns: int) -> Data:
        """Give what `agentctl workloads` shows of one workload; nothing of an unknown one."""
        one = self._all.get(name)
        if one is None:
            return {}
        phase = one.phase or "run"
        limit, silent = one.deadline_s(phase), one.silent_s(now_ns)
        starved = one.starved_s(self._counters(name), now_ns)
        return {
            "deadline_s": round(limit, 3) if phase in PROVEN[one.known.liveness] else None,
            "phase": one.phase,
            "silent_s": round(silent, 3) if one.watched else None,
            "starved_s": round(starved, 3) if one.watched else None,
            "margin_s": round(limit - silent + starved, 3) if one.watched else None,
            "margin_p1_s": one.margins.worst_s(),
            "misses": one.misses,
            "missed": one.missed,
            "proven": bool(PROVEN[one.known.liveness]),
        }

    def margins(self, name: str) -> Counter[int]:
        """Give how much was left of the deadline at each beat of the last day, counted by bucket of `agent.histogram`."""
        return self._all[name].margins.counts() if name in self._all else Counter()

    def plain(self, now_ns: int) -> Data:  # noqa: ARG002 - nothing that is kept has a time
        """Give what was learned, as JSON."""
        learned = self._learned | {name: one.estimates for name, one in self._all.items()}
        return {"schema": 1, "workloads": {name: plain(phases) for name, phases in learned.items()}}

    def restore(self, data: Json, now_ns: int) -> None:  # noqa: ARG002
        """Take back what `plain` gave. Raises StoreError if it is not of that form; nothing of it is taken then."""
        rows = data.get("workloads") if isinstance(data, dict) and data.get("schema") == 1 else None
        if not isinstance(rows, dict) or len(rows) > SUBJECTS:
            raise StoreError("learned deadlines are not of schema 1")
        self._learned = {name: all_restored(row) for name, row in rows.items()}
        for name, one in self._all.items():
            one.estimates = self._learned.get(name, one.estimates)

    def _know(self, event: Event) -> Iterator[Finding]:
        name, data = event.subject, event.data
        liveness = word(data, "liveness", "none")
        ceiling = number(data, "ceiling_s")
        known = Known(
            min(max(number(data, "deadline_s"), _SOONEST_S), _LONGEST_S),
            ceiling if ceiling > 0 else None,
            liveness if liveness in PROVEN else "none",
        )
        if name in self._all:
            self._all[name].known = known
        elif len(self._all) < SUBJECTS:
            self._all[name] = Silence(known, self._learned.pop(name, {}))
        yield from ()

    def _state(self, event: Event) -> Iterator[Finding]:
        one = self._all.get(event.subject)
        if one is None:
            return
        one.source = event.source
        phase, pid = OF_STATE.get(word(event.data, "state", "")), narrow.count(event.data.get("pid")) or None
        if pid != one.pid:
            self._own.pop(event.subject, None)
            one.pending.clear()
        ready = one.phase == "start" and phase == "run" and pid == one.pid
        if (phase, pid) != (one.phase, one.pid):
            self._enter(event, one, phase, pid)
        if one.missed and (ready or phase is None):
            yield self._over(event, one, "ready" if ready else f"not watched: {word(event.data, 'state', 'no state')}")

    def _enter(self, event: Event, one: Silence, phase: Phase | None, pid: int | None) -> None:
        """Begin a phase; the one that ends in good order teaches how long it takes."""
        took_s = (event.t_mono_ns - one.began_ns) / NS
        healthy = not (one.missed or one.extended or self._held(event.subject, event.t_mono_ns))
        in_order = pid == one.pid or (one.phase == "stop" and phase is None)
        if one.phase not in (None, "run") and in_order and healthy and took_s > 0:
            one.estimates.setdefault(one.phase, Estimate()).learn(took_s, one.bounds(one.phase))
        if pid != one.pid:
            one.wish_s, one.off, one.patience_ns = None, False, 0
        one.phase, one.pid, one.began_ns, one.extended = phase, pid, event.t_mono_ns, False
        one.since_ns = 0
        seen_ns = max(event.t_mono_ns, self._up_ns.get(event.source) or 0)  # a state may be told late, when the keeper is back
        one.alive(seen_ns, self._counters(event.subject))

    def _beats(self, event: Event) -> Iterator[Finding]:
        one, data = self._all.get(event.subject), event.data
        if one is None:
            return
        one.source = event.source
        one.wishes(max(0.0, number(data, "watchdog_us")), told_by_keeper=event.source == KEEPER)
        patience = narrow.count(data.get("extend_until_ns"))
        one.patience_ns = min(max(0, patience), event.t_mono_ns + round(_LONGEST_S * NS))
        one.extended |= one.patience_ns > one.since_ns
        told = word(data, "phase", "run")
        if one.phase is None and told in OF_STATE.values():  # who has no parent of ours has no states either
            one.phase, one.began_ns = next(phase for phase in PHASES if phase == told), event.t_mono_ns
        last_ns = min(narrow.count(data.get("last_ns")), event.t_mono_ns)
        if last_ns > one.since_ns:
            yield from self._beat(event, one, last_ns)

    def _beat(self, event: Event, one: Silence, last_ns: int) -> Iterator[Finding]:
        name, counters = event.subject, self._counters(event.subject)
        listed = event.data.get("intervals_ms")
        took = (
            [item / 1000 for item in listed if isinstance(item, int | float) and 0 <= item < 1e8]
            if isinstance(listed, list)
            else []
        )
        silent_s = (last_ns - one.since_ns) / NS
        if one.phase == "run" and took:
            one.margins.add(one.deadline_s("run") - max(took), event.t_mono_ns)
            if not one.missed:
                one.wait(took, counters)
        refuted = one.missed and one.pid == one.missed_pid and one.phase is not None
        counted_s = silent_s - one.starved_s(counters, last_ns)
        one.alive(last_ns, counters)
        if refuted and one.phase is not None:
            one.estimates.setdefault(one.phase, Estimate()).refuted(counted_s)
        if one.missed:
            yield self._over(event, one, f"beats again after {silent_s:.1f} s" if refuted else f"a new process of {name} beats")

    def _starved(self, event: Event) -> Iterator[Finding]:
        if event.subject in self._all:
            run = event.data.get("run_us_total")
            run_us = narrow.number(run) if isinstance(run, int | float) else None
            before = self._own.get(event.subject)
            fresh = Totals(wait=number(event.data, "wait_us_total"), run=run_us)
            self._own[event.subject] = fresh
            one = self._all[event.subject]
            if before is None and one.base.wait is None:  # the first reading: from here on its own wait is known
                one.base = replace(one.base, wait=fresh.wait, run=fresh.run)
        yield from ()

    def _pressure(self, event: Event) -> Iterator[Finding]:
        keys = ("cpu_some_us_total", "memory_full_us_total", "io_full_us_total")
        some, memory, io = (number(event.data, key) for key in keys)
        self._totals = Totals(some, memory, io, at_ns=max(self._totals.at_ns, event.t_mono_ns))
        yield from ()

    def _link(self, event: Event) -> Iterator[Finding]:
        up, source = bool(event.data.get("up")), f"{event.subject}_link"  # as its sightings name themselves (`ports.Link`)
        self._up_ns[source] = event.t_mono_ns if up else None
        for name, one in self._all.items():
            if up and one.source == source:
                one.alive(event.t_mono_ns, self._counters(name))
        yield from ()

    def _told(self, event: Event) -> Iterator[Finding]:
        self._told_ns[f"{event.subject}_link"] = narrow.count(event.data.get("until_ns"))
        for name, one in self._all.items():
            yield from self._judged(name, one, event.t_mono_ns)

    def _hold(self, event: Event) -> Iterator[Finding]:
        if event.subject in self._all or event.subject == GATEWAY:
            self._holds[event.subject] = narrow.count(event.data.get("until_ns"))
        yield from ()

    def _held(self, name: str, now_ns: int) -> bool:
        return max(self._holds.get(name, 0), self._holds.get(GATEWAY, 0)) > now_ns

    def _watched(self, one: Silence) -> bool:
        """Whether its silence means something, and whoever would tell of its life is there."""
        return one.watched and self._up_ns.get(one.source, 0) is not None

    def _counters(self, name: str) -> Totals:
        own = self._own.get(name)
        return self._totals if own is None else replace(self._totals, wait=own.wait, run=own.run)

    def _due(self, name: str, one: Silence) -> int | None:
        if one.missed or not self._watched(one):
            return None
        if one.suspect_ns is not None:
            return max(one.suspect_ns + CONFIRM_NS, one.looked_ns + LOOK_NS)
        return max(one.due_ns(self._counters(name), max(one.looked_ns, one.since_ns)), one.looked_ns + LOOK_NS)

    def _judged(self, name: str, one: Silence, now_ns: int) -> list[Finding]:
        if one.missed or not self._watched(one):
            return []
        one.looked_ns = now_ns
        known_ns = min(now_ns, self._told_ns.get(one.source, now_ns))  # of what came later whoever tells may not know yet
        if known_ns < one.due_ns(self._counters(name), known_ns):
            one.suspect_ns = None
        elif one.suspect_ns is None or now_ns < one.suspect_ns:
            one.suspect_ns = now_ns  # when it was told, not when it was asked: beats are told up to a second later
        elif known_ns - one.suspect_ns >= CONFIRM_NS:
            return [self._miss(name, one, now_ns)]
        return []

    def _miss(self, name: str, one: Silence, now_ns: int) -> Finding:
        phase = one.phase or "run"
        limit, silent, starved = one.deadline_s(phase), one.silent_s(now_ns), one.starved_s(self._counters(name), now_ns)
        one.estimates[phase].missed(one.bounds(phase))
        one.missed, one.missed_pid, one.suspect_ns = True, one.pid, None
        one.misses += 1
        blamed = f", {starved:.1f} s of it starved" if starved >= 0.1 else ""
        data: Data = {
            "cause": NAME,
            "deadline_s": round(limit, 3),
            "silent_s": round(silent, 3),
            "starved_s": round(starved, 3),
            "margin_s": round(limit - silent + starved, 3),
            "phase": phase,
            "pid": one.pid,
            "settle_s": round(one.deadline_s("start") + one.deadline_s("run"), 3),
        }
        summary = f"{name} is silent for {silent:.1f} s{blamed}; in phase {phase} its deadline is {limit:.1f} s"
        return Finding(now_ns, NAME, name, "critical", summary, (), data)

    def _over(self, event: Event, one: Silence, why: str) -> Finding:
        one.missed = False
        return Finding(
            event.t_mono_ns, NAME, event.subject, "ok", why, (event.seq,) if event.seq else (), {"misses": one.misses}
        )


_HANDLERS: dict[str, Callable[[Deadline, Event], Iterator[Finding]]] = {
    "workload.known": Deadline._know,  # noqa: SLF001 - its own table
    "workload.state": Deadline._state,  # noqa: SLF001
    "workload.beats": Deadline._beats,  # noqa: SLF001
    "workload.starved": Deadline._starved,  # noqa: SLF001
    "workload.link": Deadline._link,  # noqa: SLF001
    "workload.told": Deadline._told,  # noqa: SLF001
    "workload.hold": Deadline._hold,  # noqa: SLF001
    "machine.pressure": Deadline._pressure,  # noqa: SLF001
}
KINDS = frozenset(_HANDLERS)


def make(options: Options) -> Deadline:  # noqa: ARG001 - every detector is made in the same way
    """Make the detector."""
    return Deadline()
