"""The spool thread on a real outbox: done callbacks, back-pressure, samples, failure of the disk."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from agent.errors import StoreError
from agent.linux.clock import SystemClock
from agent.model import Data
from agent.ports import Loop
from agent.telemetry.committer import FAULTS, RETRY_NS, Committer, Entry
from agent.telemetry.marks import Marks
from agent.telemetry.messages import EVENT, GAP, METRICS, Message, Request
from agent.telemetry.spool import ROOM, Spool
from tests.brokers import wait_for
from tests.doubles import DirectLoop, HandClock
from tests.telemetry.doubles import BOOT, event, open_outbox


class Taker:
    """A `Sink` that takes what it gets."""

    def __init__(self, *, connected: bool = True) -> None:
        self.offered: list[Message] = []
        self.samples: list[Message] = []
        self.pages: list[list[Message]] = []
        self.connected = connected

    def offer(self, messages: Sequence[Message]) -> None:
        """Keep."""
        self.offered += messages

    def hears(self) -> bool:
        """Say whether there is a line."""
        return self.connected

    def sample(self, message: Message) -> bool:
        """Keep if connected."""
        if self.connected:
            self.samples.append(message)
        return self.connected

    def page(self, request: Request, messages: Sequence[Message]) -> None:
        """Keep."""
        assert len(messages) <= request.n
        self.pages.append(list(messages))


class Stage:
    """A spool in a folder, with what it reports."""

    def __init__(self, folder: Path, sink: Taker | None) -> None:
        self.reports: list[str] = []
        (folder / "run").mkdir(exist_ok=True)
        marks = Marks(folder / "run", BOOT)
        self.spool = Spool(open_outbox(folder), marks, cast("Loop", DirectLoop()), SystemClock(), BOOT, self.reports.append)
        self.spool.start(sink)


@pytest.fixture
def taker() -> Taker:
    """Give a connected sink."""
    return Taker()


@pytest.fixture
def stage(tmp_path: Path, taker: Taker) -> Iterator[Stage]:
    """Give a running spool."""
    stage = Stage(tmp_path, taker)
    yield stage
    stage.spool.close()


def test_done_runs_after_the_commit_and_the_publisher_is_told(stage: Stage, taker: Taker) -> None:
    """When `done` runs the records are durable; then they are offered."""
    seen: list[tuple[int, int]] = []
    done = threading.Event()

    def check() -> None:
        seen.append((stage.spool.cursor("r"), stage.spool._outbox.count("backlog.rows")))
        done.set()

    stage.spool.append([event(stage.spool.next_seq())], {"r": 9}, check)
    assert done.wait(5)
    assert seen == [(9, 1)]
    wait_for(lambda: taker.offered, "an offer")
    assert (taker.offered[0].stream, taker.offered[0].seq) == (EVENT, 1)


def test_event_numbers_go_on_behind_those_of_the_last_process(tmp_path: Path, taker: Taker) -> None:
    """`next_seq` never gives a number twice within a boot."""
    first = Stage(tmp_path, taker)
    first.spool.append([event(first.spool.next_seq()), event(first.spool.next_seq())], {}, lambda: None)
    assert first.spool.close()
    second = Stage(tmp_path, taker)
    assert second.spool.next_seq() == 3
    assert second.spool.close()


def test_samples_go_from_memory_while_connected_and_into_the_backlog_otherwise(tmp_path: Path) -> None:
    """No flash write per sample on a good line; without a line they wait, in order, with their numbers."""
    taker = Taker()
    stage = Stage(tmp_path, taker)
    stage.spool.metric({"n": 1})
    wait_for(lambda: taker.samples, "a sample")
    taker.connected = False
    stage.spool.metric({"n": 2})
    wait_for(lambda: taker.offered, "the stored sample", 5)
    assert [(m.stream, m.seq, m.id) for m in taker.samples + taker.offered] == [(METRICS, 1, 0), (METRICS, 2, 1)]
    wait_for(lambda: stage.spool.stats().backlog_rows == 1, "the row to be counted")
    stage.spool.close()
    again = Stage(tmp_path, taker)
    again.spool.metric({"n": 3})
    wait_for(lambda: len(taker.offered) == 2, "the next sample", 5)
    assert taker.offered[1].seq == 3
    again.spool.close()


def test_without_a_line_one_sample_a_minute_is_stored(tmp_path: Path) -> None:
    """Five samples in a row leave one row in the backlog, and no hole in the numbers."""
    taker = Taker()
    taker.connected = False
    stage = Stage(tmp_path, taker)
    for n in range(5):
        stage.spool.metric({"n": n})
    wait_for(lambda: taker.offered, "the stored sample", 5)
    taker.connected = True
    stage.spool.metric({"n": 9})
    wait_for(lambda: taker.samples, "the next sample")
    assert [message.seq for message in taker.offered + taker.samples] == [1, 2]
    stage.spool.close()


def test_without_a_broker_samples_are_not_stored(tmp_path: Path) -> None:
    """Nobody would ever read them."""
    stage = Stage(tmp_path, None)
    stage.spool.metric({"n": 1})
    stage.spool.append([event(1)], {}, lambda: None)
    wait_for(lambda: stage.spool.stats().backlog_rows, "a commit")
    assert stage.spool.stats().backlog_rows == 1
    stage.spool.close()


def test_acknowledgements_are_grouped_and_flushed_at_the_end(tmp_path: Path, stage: Stage, taker: Taker) -> None:
    """Delivery marks wait for company up to a second, and are not lost by a clean stop."""
    stage.spool.append([event(1)], {}, lambda: None)
    wait_for(lambda: taker.offered, "an offer")
    stage.spool.acked([taker.offered[0].id])
    stage.spool.close()
    box = open_outbox(tmp_path)
    assert box.count("backlog.rows") == 0
    box.close()


def test_a_page_never_has_what_was_acknowledged_before(stage: Stage, taker: Taker) -> None:
    """Marks that wait are written before a page is read, so that nothing is replayed for no reason."""
    stage.spool.append([event(1), event(2)], {}, lambda: None)
    wait_for(lambda: taker.offered, "an offer")
    stage.spool.acked([taker.offered[0].id])
    stage.spool.pending(Request(1, (-1, 0), 10))
    wait_for(lambda: taker.pages, "a page")
    assert [m.seq for m in taker.pages[0]] == [2]


def test_recent_answers_on_the_loop(stage: Stage) -> None:
    """The history comes by callback, so that the main loop does not wait for a disk."""
    answers: list[list[Data] | StoreError] = []
    stage.spool.append([event(1)], {}, lambda: None)
    stage.spool.recent(answers.append, 5)
    wait_for(lambda: answers, "an answer")
    assert [row["seq"] for row in answers[0]] == [1]  # type: ignore[union-attr]


def test_without_room_records_are_given_up_and_explained(tmp_path: Path) -> None:
    """A disk that hangs costs the newest records beyond `ROOM`; their ring is released, and a gap record explains them."""
    taker = Taker()
    (tmp_path / "run").mkdir()
    spool = Spool(open_outbox(tmp_path), Marks(tmp_path / "run", BOOT), cast("Loop", DirectLoop()), SystemClock(), BOOT, print)
    released: list[int] = []
    for n in range(ROOM + 10):
        spool.append([event(n + 1)], {"r": n + 1}, lambda n=n: released.append(n))  # type: ignore[misc]
    assert released == list(range(ROOM, ROOM + 10))
    spool.start(taker)
    wait_for(lambda: len(released) == ROOM + 10, "all commits")
    spool.append([event(9999)], {}, lambda: None)
    wait_for(lambda: any(m.stream == GAP for m in taker.offered), "a gap record")
    assert spool.cursor("r") == ROOM + 10
    assert spool.stats().dropped == 10
    assert spool.stats().dropped_ns is not None
    spool.close()
    (tmp_path / "other").mkdir()
    assert open_outbox(tmp_path).dropped_ns() is not None


class Breakable:
    """A committer on an outbox whose connection the test makes read-only for a while."""

    def __init__(self, folder: Path) -> None:
        self.clock = HandClock()
        (folder / "run").mkdir()
        self.marks = Marks(folder / "run", BOOT)
        self.outbox = open_outbox(folder, self.clock)
        self.reports: list[str] = []
        self.committer = Committer(self.outbox, self.marks, self.clock, BOOT, lambda callback: callback(), self.reports.append)


def test_a_failing_disk_is_told_once_and_loses_nothing(tmp_path: Path) -> None:
    """While commits fail records wait in memory; the failure and its end are each said once."""
    place = Breakable(tmp_path)
    done: list[int] = []
    place.outbox._store.db.execute("PRAGMA query_only = ON")
    for n in range(3):
        place.committer.append(Entry([event(n + 1)], {"r": n + 1}, lambda n=n: done.append(n)))  # type: ignore[misc]
        place.committer.work()
        place.clock.ns += RETRY_NS
    assert (done, len(place.reports)) == ([], 1)
    assert "wait in memory" in place.reports[0]
    assert place.committer.stats.failures == 3
    assert place.committer.wait_s() == 0
    place.outbox._store.db.execute("PRAGMA query_only = OFF")
    place.committer.work()
    assert done == [0, 1, 2]
    assert place.outbox.cursor("r") == 3
    assert len(place.reports) == 2
    place.committer.finish()


def test_a_damaged_outbox_is_reported(tmp_path: Path) -> None:
    """The daemon gets words that it can make an event of."""
    (tmp_path / "outbox.db").write_bytes(b"rubbish")
    stage = Stage(tmp_path, Taker())
    stage.spool.append([event(1)], {}, lambda: None)
    wait_for(lambda: stage.reports, "a report")
    assert "set aside" in stage.reports[0]
    stage.spool.close()


def test_a_fault_in_the_thread_does_not_end_it(stage: Stage) -> None:
    """A bug costs one job, is counted, and the next commit works."""
    stage.spool._inbox.put(lambda: 1 // 0)  # type: ignore[arg-type]
    done = threading.Event()
    stage.spool.append([event(1)], {}, done.set)
    assert done.wait(10)
    wait_for(lambda: stage.spool.stats().faults == 1 and not stage.spool.stats().error, "the fault counted, and over")
    assert "ZeroDivisionError" in stage.reports[0]
    assert len(stage.reports) == 2  # it began, it ended


class Unwritable(dict[str, Any]):
    """A record that no encoder was made for."""

    def get(self, key: str, default: object = None) -> object:
        """Fail as a bug would."""
        raise ZeroDivisionError(key, default)


def test_what_always_fails_is_given_up_and_explained(tmp_path: Path) -> None:
    """A batch that runs into a bug of ours each time is told once, costs itself alone, and its ring goes on."""
    place = Breakable(tmp_path)
    place.committer.sink = taker = Taker()
    done: list[int] = []
    place.committer.append(Entry([Unwritable(), event(1)], {"r": 1}, lambda: done.append(1)))
    place.committer.append(Entry([event(2)], {"r": 2}, lambda: done.append(2)))
    for _ in range(FAULTS):
        with pytest.raises(ZeroDivisionError) as caught:
            place.committer.work()
        place.committer.fault(cast("Exception", caught.value))
    place.committer.work()
    assert done == [1, 2]
    assert place.outbox.cursor("r") == 2
    assert [json.loads(message.body)["reason"] for message in taker.offered if message.stream == GAP] == ["fault"]
    assert (place.committer.stats.dropped, place.committer.stats.faults, len(place.reports)) == (2, FAULTS, 2)
    assert place.committer.settled == 3
    place.committer.finish()


def test_an_idle_spool_sleeps(stage: Stage) -> None:
    """Nothing to do, nothing due before the next tidy in ten minutes."""
    wait_for(lambda: stage.spool._committer.wait_s() > 500, "an idle committer")


def test_closing_a_spool_that_never_started_commits_what_it_holds(tmp_path: Path) -> None:
    """A daemon that fails half-way through its start loses nothing."""
    (tmp_path / "run").mkdir()
    spool = Spool(open_outbox(tmp_path), Marks(tmp_path / "run", BOOT), cast("Loop", DirectLoop()), SystemClock(), BOOT, print)
    spool.append([event(1)], {"r": 1}, lambda: None)
    spool.close()
    box = open_outbox(tmp_path)
    assert box.cursor("r") == 1
    box.close()
