"""The hub: Event -> Finding -> Decision -> Outcome, in one direction, without an opinion of its own."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar, cast

from agent.model import Data, Decision, Event, Finding, Outcome, Record, Sighting, plain
from agent.policies.recording import Recording
from agent.ports import Action, Clock, Detector, Policy, Store, Timed

_LATEST = 64
_Given = TypeVar("_Given")


def nothing() -> None:
    """Do nothing when a commit is done."""


def disarmed(_due_ns: int | None) -> None:
    """Do without an alarm: the regular tick is enough."""


def unheeded(_decision: Decision, _outcome: Outcome) -> None:
    """Leave an outcome to the records."""


@dataclass(slots=True)
class Pipeline:
    """One per agentd. `open` holds the findings that are not `ok`, by (detector, subject)."""

    boot_id: str
    clock: Clock
    store: Store
    detectors: Sequence[Detector]
    policies: Sequence[Policy]
    actions: Mapping[str, Action]
    submit: Callable[[Decision, Callable[[], None]], bool]
    """Runs the action of a decision where it may block; False if it cannot be run."""
    back: Callable[[Callable[[], None]], None]
    """Runs the rest on the loop's own thread again."""
    fault: Callable[[str, Exception], None]
    """Hears of a detector or a policy that raised."""
    arm: Callable[[int | None], None] = disarmed
    """Is told when `alarm` is due next (None: not before something happens), whenever something happened."""
    done: Callable[[Decision, Outcome], None] = unheeded
    """Hears of each outcome, on the loop's thread."""
    recording: Recording = field(default_factory=Recording)
    """Decides which events are worth a record of their own."""
    latest: deque[Event] = field(default_factory=lambda: deque(maxlen=_LATEST))
    """The newest events, for whoever keeps evidence: the store may not have them on disk yet."""
    open: dict[tuple[str, str], Finding] = field(default_factory=dict)

    def take(
        self,
        sightings: Iterable[Sighting],
        cursors: Mapping[str, int] | None = None,
        done: Callable[[], None] = nothing,
    ) -> None:
        """Record `sightings` as events, together with the ring positions `cursors`, and act on what follows from them.

        `done` runs when all of it is durable. Actions run after the events and decisions were handed to the store.
        """
        events = [self._event(*self._weighed(sighting)) for sighting in sightings]
        self.latest.extend(events)
        self.store.append([plain(event) for event in events if event.seq], cursors or {}, done)
        self._follow([finding for event in events for finding in self._seen(event)])
        self._rearm()

    def sample(self, sighting: Sighting) -> None:
        """Show a reading that repeats each tick to the detectors, without recording it: only what follows is worth flash."""
        self._follow(list(self._seen(self._event(sighting, False))))
        self._rearm()

    def tick(self) -> None:
        """Let time pass for the detectors, then for the policies."""
        self._pass(self.detectors, self.policies)

    def alarm(self) -> None:
        """Let time pass for those only that wanted it at this time."""
        now = self.clock.mono_ns()

        def due(one: Detector | Policy) -> bool:
            at = self._due(one)
            return at is not None and at <= now

        self._pass([one for one in self.detectors if due(one)], [one for one in self.policies if due(one)])

    def _pass(self, detectors: Sequence[Detector], policies: Sequence[Policy]) -> None:
        now = self.clock.mono_ns()
        self._follow([finding for one in detectors for finding in self._guarded(one, partial(one.tick, now))])
        self._carry_out([decision for one in policies for decision in self._guarded(one, partial(one.tick, now))])
        self._rearm()

    def _rearm(self) -> None:
        both: list[Detector | Policy] = [*self.detectors, *self.policies]
        known = [at for one in both if (at := self._due(one)) is not None]
        self.arm(min(known, default=None))

    def _due(self, one: Detector | Policy) -> int | None:
        ask = cast("Timed | None", one if hasattr(one, "next_due_ns") else None)
        if ask is None:
            return None
        found = self._guarded(one, lambda: (ask.next_due_ns(),))
        return found[0] if found else None

    def _seen(self, event: Event) -> Iterator[Finding]:
        for detector in self.detectors:
            yield from self._guarded(detector, partial(detector.see, event))

    def _guarded(self, one: Detector | Policy, ask: Callable[[], Iterable[_Given]]) -> list[_Given]:
        """Give what `one` concludes or decides; a fault of its own is reported, and costs neither the event nor the others."""
        try:
            return list(ask())
        except Exception as error:  # noqa: BLE001 - detectors are an open set
            name = getattr(one, "name", None)
            self.fault(f"detector {name}" if name else f"policy {type(one).__name__.lower()}", error)
            return []

    def _weighed(self, sighting: Sighting) -> tuple[Sighting, bool]:
        """Give `sighting` and whether it becomes a record; one after a storm says how many like it did not."""
        left_out = self.recording.keep(sighting)
        if left_out:
            sighting = replace(sighting, data={**sighting.data, "left_out": left_out})
        return sighting, left_out is not None

    def _event(self, sighting: Sighting, recorded: bool) -> Event:  # noqa: FBT001 - beside its only callers
        # The fact's own wall time: now, less what has passed on the monotonic clock since.
        age = (self.clock.mono_ns() - sighting.t_mono_ns) / 1e9
        return Event(
            boot_id=self.boot_id,
            seq=self.store.next_seq() if recorded else 0,
            t_mono_ns=sighting.t_mono_ns,
            t_wall=round(self.clock.wall() - age, 6),
            source=sighting.source,
            kind=sighting.kind,
            subject=sighting.subject,
            severity=sighting.severity,
            data=sighting.data,
        )

    def _follow(self, findings: Sequence[Finding]) -> None:
        """Record findings, each with what is decided on it, then act."""
        records: list[Record] = []
        for finding in findings:
            self._remember(finding)
            records.append(finding)
            for policy in self.policies:
                records += self._guarded(policy, partial(policy.decide, finding))
        self._carry_out(records)

    def _carry_out(self, records: Sequence[Record]) -> None:
        if records:
            self._record(records)
        for record in records:
            if isinstance(record, Decision):
                self._act(record)

    def _record(self, records: Sequence[Record]) -> None:
        self.store.append([self._stamped(record) for record in records], {}, nothing)

    def _act(self, decision: Decision) -> None:
        action = self.actions.get(decision.action)

        def run() -> None:
            outcome = self._failed(decision, "no such action in this agent") if action is None else action(decision)
            self.back(lambda: self._over(decision, outcome))

        if not self.submit(decision, run):
            self._over(decision, self._failed(decision, "the actions before it hang"))

    def _over(self, decision: Decision, outcome: Outcome) -> None:
        self._record([outcome])
        self.done(decision, outcome)

    def _failed(self, decision: Decision, why: str) -> Outcome:
        return Outcome(self.clock.mono_ns(), decision.action, decision.finding.subject, ok=False, detail=why)

    def _remember(self, finding: Finding) -> None:
        key = (finding.detector, finding.subject)
        if finding.state == "ok":
            self.open.pop(key, None)
        else:
            self.open[key] = finding

    def _stamped(self, record: Record) -> Data:
        return {**plain(record), "boot_id": self.boot_id, "t_wall": round(self.clock.wall(), 6)}
