"""The threads of the actions: order within a key, none of one key waiting for another's."""

from __future__ import annotations

import threading
from collections.abc import Callable

from agent.linux.worker import Worker

WAIT_S = 10


def waiting(event: threading.Event) -> Callable[[], None]:
    """Give a job that hangs until `event`."""

    def job() -> None:
        event.wait(WAIT_S)

    return job


def test_jobs_of_one_key_keep_their_order() -> None:
    """Pins that a capture is over before the restart after it begins."""
    worker, done = Worker("test"), list[int]()
    for number in range(20):
        assert worker.submit("camera-1", lambda number=number: done.append(number))  # type: ignore[misc]
    worker.close()
    assert done == list(range(20))


def test_a_job_that_hangs_holds_up_its_own_key_alone() -> None:
    """Pins that one stubborn workload does not delay the recovery of another."""
    worker, stuck, other = Worker("test"), threading.Event(), threading.Event()
    worker.submit("stubborn", waiting(stuck))
    worker.submit("other", other.set)
    assert other.wait(WAIT_S)
    stuck.set()
    worker.close()


def test_there_is_an_end_to_waiting() -> None:
    """Pins the bounds: eight threads, and at most 256 jobs in line; what waited runs when a thread is free; threads end."""
    worker, stuck = Worker("test"), threading.Event()
    done = list[str]()
    before = threading.active_count()
    for number in range(8):
        worker.submit(f"key-{number}", waiting(stuck))
    worker.submit("late", lambda: done.append("late"))
    accepted = sum(worker.submit("key-0", lambda: None) for _ in range(300))
    assert 200 < accepted <= 256
    assert threading.active_count() - before == 8
    stuck.set()
    worker.close()
    assert done == ["late"]
    assert threading.active_count() == before


def test_what_is_urgent_waits_for_no_thread() -> None:
    """Pins that a reboot, and its last words, begin although eight workloads hang in their orders; in order within its key."""
    worker, stuck, done = Worker("test", {"machine"}), threading.Event(), list[int]()
    for number in range(10):
        worker.submit(f"key-{number}", waiting(stuck))
    over = threading.Event()
    for job in (lambda: done.append(1), lambda: done.append(2), over.set):
        worker.submit("machine", job)
    assert over.wait(WAIT_S)
    assert done == [1, 2]
    stuck.set()
    worker.close()
