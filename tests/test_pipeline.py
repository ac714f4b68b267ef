"""The hub: what flows in which order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from agent.model import Decision, Event, Finding, Outcome, Sighting
from agent.pipeline import Pipeline
from tests.doubles import HandClock, MemoryStore

LATE = Sighting(1_000, "timers", "timer.late", "some_timer_fn", "warning", {"late_us": 12.0})


@dataclass
class Echo:
    """A detector that finds every event critical, and ends all findings on a tick."""

    name: str = "echo"

    def see(self, event: Event) -> Iterable[Finding]:
        """Give one finding."""
        yield Finding(event.t_mono_ns, self.name, event.subject, "critical", "seen", (event.seq,))

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """End it."""
        yield Finding(now_ns, self.name, "some_timer_fn", "ok", "quiet")


class Always:
    """A policy that wants `note`, and an action that no table has."""

    def decide(self, finding: Finding) -> Iterable[Decision]:
        """Decide twice for what is not ok."""
        if finding.state != "ok":
            yield Decision(finding.t_mono_ns, "note", finding, "because")
            yield Decision(finding.t_mono_ns, "reformat", finding, "because")

    def tick(self, now_ns: int) -> Iterable[Decision]:  # noqa: ARG002 - of the port
        """Want nothing."""
        return ()


def run_now(job: Callable[[], None]) -> None:
    """Run a job on this thread."""
    job()


def at_once(_decision: Decision, job: Callable[[], None]) -> bool:
    """Run a job on this thread; there is always room."""
    job()
    return True


faults: list[str] = []


def hub() -> tuple[Pipeline, MemoryStore, list[str]]:
    """Give a pipeline over doubles, its store, and the list of what `note` was told."""
    noted: list[str] = []

    def note(decision: Decision) -> Outcome:
        noted.append(decision.finding.subject)
        return Outcome(decision.t_mono_ns, "note", decision.finding.subject, ok=True, detail="noted")

    store = MemoryStore()
    return (
        Pipeline(
            "boot",
            HandClock(wall_s=100.0, ns=5_000_000_000),
            store,
            [Echo()],
            [Always()],
            {"note": note},
            at_once,
            run_now,
            lambda name, _error: faults.append(name),
        ),
        store,
        noted,
    )


def kinds(store: MemoryStore) -> list[str]:
    """Give the envelopes in the order in which they reached the store."""
    return [str(record["record"]) for batch, _cursors in store.batches for record in batch]


def test_an_event_flows_through_to_its_outcome_in_order() -> None:
    """Event, finding, decision, outcome; the action runs once and the ring position is committed with the event."""
    pipeline, store, noted = hub()
    durable: list[bool] = []
    pipeline.take([LATE], {"ring": 64}, lambda: durable.append(True))
    assert kinds(store) == ["event", "finding", "decision", "decision", "outcome", "outcome"]
    assert store.batches[0][1] == {"ring": 64}
    assert noted == ["some_timer_fn"]
    assert durable == [True]


def test_an_action_that_is_not_in_the_table_is_an_outcome_not_a_crash() -> None:
    """The closed set is closed: an unknown name changes nothing and is recorded as failed."""
    pipeline, store, _noted = hub()
    pipeline.take([LATE])
    last = store.batches[-1][0][-1]
    assert last["ok"] is False
    assert "no such action" in str(last["detail"])


def test_the_wall_time_of_an_event_is_that_of_the_fact() -> None:
    """A record read 4.999999 s late is dated back by the monotonic clock."""
    pipeline, store, _noted = hub()
    pipeline.take([LATE])
    assert store.batches[0][0][0]["t_wall"] == 100.0 - 4.999999


def test_findings_stay_open_until_their_detector_ends_them() -> None:
    """`open` is what status shows: raised by an event, gone after the ok of a tick."""
    pipeline, _store, _noted = hub()
    pipeline.take([LATE])
    assert list(pipeline.open) == [("echo", "some_timer_fn")]
    pipeline.tick()
    assert pipeline.open == {}


def test_a_sample_is_shown_to_the_detectors_but_not_recorded() -> None:
    """Readings of every tick would fill the flash: only findings that follow from them are stored, and no number is used up."""
    pipeline, store, _noted = hub()
    pipeline.sample(LATE)
    assert "event" not in kinds(store)
    assert "finding" in kinds(store)
    assert store.seq == 0


def test_an_action_that_finds_no_room_is_an_outcome() -> None:
    """When the worker's queue is full, the decision is answered by a failed outcome instead of waiting."""
    pipeline, store, noted = hub()
    pipeline.submit = lambda _decision, _job: False
    pipeline.take([LATE])
    outcomes = [record for batch, _cursors in store.batches for record in batch if record["record"] == "outcome"]
    assert [outcome["ok"] for outcome in outcomes] == [False, False]
    assert noted == []


class Broken(Echo):
    """A detector with a fault of its own."""

    def see(self, event: Event) -> Iterable[Finding]:
        """Fail on every event."""
        raise ZeroDivisionError(event.kind)

    def tick(self, now_ns: int) -> Iterable[Finding]:
        """Fail on every tick."""
        raise ZeroDivisionError(now_ns)


def test_a_detector_that_raises_costs_neither_the_event_nor_the_others() -> None:
    """The event is recorded with its ring position, the other detectors see it, and the fault is reported by name."""
    pipeline, store, noted = hub()
    pipeline.detectors = [Broken("broken"), Echo()]
    faults.clear()
    pipeline.take([LATE], {"ring": 64})
    pipeline.tick()
    assert store.batches[0][1] == {"ring": 64}
    assert noted == ["some_timer_fn"]
    assert faults == ["detector broken", "detector broken"]


@dataclass
class Later:
    """A policy with something to do at a time of its own."""

    due_ns: int | None
    begun: Finding

    def decide(self, finding: Finding) -> Iterable[Decision]:  # noqa: ARG002 - of the port
        """Want nothing at once."""
        return ()

    def tick(self, now_ns: int) -> Iterable[Decision]:
        """Want `note` once it is due."""
        if self.due_ns is not None and now_ns >= self.due_ns:
            self.due_ns = None
            yield Decision(now_ns, "note", self.begun, "its time has come")

    def next_due_ns(self) -> int | None:
        """Tell when."""
        return self.due_ns


def test_who_has_a_time_of_its_own_is_asked_then_and_nobody_else() -> None:
    """The alarm is armed to the earliest time that a detector or policy names, and lets time pass for those that are due."""
    pipeline, store, noted = hub()
    armed: list[int | None] = []
    clock = pipeline.clock
    assert isinstance(clock, HandClock)
    later = Later(clock.ns + 7, Finding(1, "echo", "fan", "critical", "stuck"))
    pipeline.policies, pipeline.arm = [later], armed.append
    pipeline.sample(LATE)
    assert armed == [clock.ns + 7]
    pipeline.alarm()
    assert noted == []
    clock.ns += 7
    pipeline.alarm()
    assert noted == ["fan"]
    assert kinds(store) == ["finding", "decision", "outcome"]  # the finding is of the sample: echo has no time of its own
    assert armed[-1] is None


class Wrong(Always):
    """A policy with a fault of its own."""

    def decide(self, finding: Finding) -> Iterable[Decision]:
        """Fail on every finding."""
        raise ZeroDivisionError(finding.subject)


def test_a_policy_that_raises_costs_neither_the_finding_nor_the_other_policies() -> None:
    """Several policies decide on each finding, one after the other; the fault of one is reported by name."""
    pipeline, store, noted = hub()
    pipeline.policies = [Wrong(), Always()]
    faults.clear()
    pipeline.take([LATE])
    assert kinds(store)[:3] == ["event", "finding", "decision"]
    assert noted == ["some_timer_fn"]
    assert faults == ["policy wrong"]
