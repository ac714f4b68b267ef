"""sched_latency on replayed events."""

from __future__ import annotations

from dataclasses import replace

from agent.detectors import sched_latency
from agent.model import Event
from tests.detectors.replay import event, replay, states


def wait(second: float, wait_us: float = 60_000, comm: str = "decoder") -> Event:
    """One wait for a CPU."""
    return event(
        second, "sched.latency", comm, comm=comm, pid=7, wait_us=wait_us, budget_us=50_000, cpu=1, running_comm="stress"
    )


def test_waits_are_told_once_and_end() -> None:
    """Five waits in a minute are degraded; the summary names who had the CPU; a quiet minute ends it."""
    found = replay(sched_latency.make(sched_latency.Options()), [wait(second) for second in range(50)], until=200)
    assert states(found) == [("decoder", "degraded"), ("decoder", "ok")]
    assert found[0].summary == "decoder waited 60.0 ms for CPU 1, which ran stress"
    assert found[0].t_mono_ns == 4 * 10**9


def test_long_waits_are_critical() -> None:
    """Three waits of ten times the budget."""
    found = replay(sched_latency.make(sched_latency.Options()), [wait(second, 600_000) for second in range(5)])
    assert states(found) == [("decoder", "critical")]


def test_a_blocked_task_is_a_fault_at_once() -> None:
    """Seconds in uninterruptible sleep need no second time; three of ten times the limit are critical."""
    blocked = [event(s, "sched.blocked", "nfs", comm="nfs", blocked_us=11e6, budget_us=10e6) for s in (1, 2)]
    found = replay(sched_latency.make(sched_latency.Options()), blocked, until=100)
    assert states(found) == [("nfs", "degraded"), ("nfs", "ok")]
    assert found[0].summary == "nfs was blocked for 11.0 s"


def test_a_task_that_stays_blocked_stays_a_fault() -> None:
    """Recorded once, then only a reminder at each tick: the finding does not end, grows critical, and names the one record."""
    first = {"comm": "nfs", "budget_us": 10e6, "waker_pid": None}
    blocked = [event(s, "sched.blocked", "nfs", blocked_us=s * 1e6, **first) for s in range(11, 200, 10)]
    reminders = [replace(item, seq=0) if index else item for index, item in enumerate(blocked)]
    found = replay(sched_latency.make(sched_latency.Options()), reminders, until=300)
    assert states(found) == [("nfs", "degraded"), ("nfs", "critical"), ("nfs", "ok")]
    assert found[0].summary == "nfs has been blocked for 11.0 s"
    assert {finding.evidence for finding in found} == {(blocked[0].seq,)}
    assert found[-1].t_mono_ns > 240 * 10**9


def test_sparse_waits_are_no_fault() -> None:
    """One wait each 20 s for an hour."""
    assert replay(sched_latency.make(sched_latency.Options()), [wait(second) for second in range(0, 3600, 20)]) == []


def test_storm_is_bounded() -> None:
    """Ten thousand short-lived processes that all wait: bounded memory and findings."""
    detector = sched_latency.make(sched_latency.Options())
    found = replay(detector, [wait(index / 1000, comm=f"c{index}") for index in range(10_000)])
    assert len(detector.cases) == 256
    assert found == []
