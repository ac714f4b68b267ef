"""One contract for each port, run against its double and against the adapter that the daemon uses."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import cast, get_args

import pytest

from agent.errors import NotRunning, StoreError
from agent.linux.clock import SystemClock
from agent.linux.files import SnapshotFolder
from agent.linux.intent import DurableFile
from agent.linux.journal import StderrJournal
from agent.linux.keeperclient import KeeperClient
from agent.linux.loop import EpollLoop
from agent.model import Severity
from agent.ports import Archive, Clock, Intents, Journal, Keeper, Loop, Store
from agent.resets.causes import Words
from agent.resets.lastwords import LastWords
from agent.telemetry.bounds import Limits
from agent.telemetry.marks import Marks
from agent.telemetry.outbox import Outbox
from agent.telemetry.spool import Spool
from tests.brokers import wait_for
from tests.doubles import DirectLoop, HandClock, MemoryArchive, MemoryJournal, MemoryKeeper, MemoryMachine, MemoryStore
from tests.keepers import keeper as running
from tests.keepers import workload


@pytest.mark.parametrize("clock", [HandClock(), HandClock(step_ns=5), SystemClock()])
def test_a_clock_never_runs_backwards(clock: Clock) -> None:
    """Pins whole nanoseconds that do not fall, and a wall time after 2020."""
    looks = [clock.mono_ns() for _ in range(100)]
    assert looks == sorted(looks)
    assert isinstance(looks[0], int)
    assert clock.wall() > 1_577_836_800


@pytest.fixture(params=["double", "real"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """Give a `Store`."""
    if request.param == "double":
        yield MemoryStore()
        return
    clock, marks = SystemClock(), Marks(tmp_path, "boot")
    outbox = Outbox(tmp_path, Limits(headroom_bytes=0), clock, marks, boot_id="boot", deliver=False)
    spool = Spool(outbox, marks, cast("Loop", DirectLoop()), clock, "boot", lambda _text: None)
    spool.start(None)
    yield spool
    assert spool.close()


def test_a_store_numbers_events_and_reports_commits_in_order(store: Store) -> None:
    """Pins numbers from 1 without holes, and one `done` for each batch, an empty one too, in the order of the batches."""
    assert [store.next_seq() for _ in range(3)] == [1, 2, 3]
    done: list[int] = []
    store.append([{"record": "event", "seq": 1}], {"ring": 8}, lambda: done.append(1))
    store.append([], {"ring": 16}, lambda: done.append(2))
    store.append([{"record": "event", "seq": 2}, {"record": "event", "seq": 3}], {}, lambda: done.append(3))
    store.metric({"schema": "gatewarden.metrics/1"})
    wait_for(lambda: len(done) == 3, "all three")
    assert done == [1, 2, 3]


@pytest.fixture(params=["double", "real"])
def loop(request: pytest.FixtureRequest) -> Iterator[Loop]:
    """Give a `Loop` that serves."""
    if request.param == "double":
        yield cast("Loop", DirectLoop())
        return
    real = EpollLoop(lambda _name, _error: None)
    thread = threading.Thread(target=real.run)
    thread.start()
    yield real
    real.stop()
    thread.join()
    real.close()


def test_a_loop_runs_calls_of_other_threads_one_at_a_time(loop: Loop) -> None:
    """Pins what the spool and the publisher rely on: each call runs once, those of one thread in order, no two together."""
    running, ran = threading.Lock(), list[tuple[int, int]]()

    def call(thread: int, number: int) -> Callable[[], None]:
        def run() -> None:
            assert running.acquire(blocking=False)
            ran.append((thread, number))
            running.release()

        return run

    def caller(thread: int) -> None:
        for number in range(50):
            loop.call_soon_threadsafe(call(thread, number))

    threads = [threading.Thread(target=caller, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wait_for(lambda: len(ran) == 200, "all calls")
    assert [[number for by, number in ran if by == thread] for thread in range(4)] == [list(range(50))] * 4


@pytest.mark.parametrize("journal", [MemoryJournal(), StderrJournal(io.StringIO())])
def test_a_journal_takes_any_plain_fields(journal: Journal) -> None:
    """Pins that a line of any severity, with foreign text in its fields, is taken."""
    for severity in get_args(Severity):
        journal.line(severity, "said", {"comm": 'a\n"b', "n": 1, "none": None, "list": [1, {"a": []}]})


class Unwritable(io.StringIO):
    """A stream that nobody reads any longer."""

    def write(self, _text: str) -> int:
        """Fail as a closed pipe does."""
        raise BrokenPipeError(32, "Broken pipe")


@pytest.mark.parametrize("journal", [MemoryJournal(BrokenPipeError(32, "Broken pipe")), StderrJournal(Unwritable())])
def test_a_journal_that_nobody_takes_says_so(journal: Journal) -> None:
    """Pins OSError, on which the broker withholds its answer."""
    with pytest.raises(OSError, match="Broken pipe"):
        journal.line("info", "said", {})


@pytest.mark.parametrize("kind", ["double", "real"])
def test_an_archive_keeps_two_entries_of_one_name(kind: str, tmp_path: Path) -> None:
    """Pins that each entry has a path of its own, by the name that it was given."""
    archive: Archive = MemoryArchive() if kind == "double" else SnapshotFolder(tmp_path)
    paths = [archive.keep("now-timer_late-tick", {"decision.json": "{}"}) for _ in range(2)]
    assert len(set(paths)) == 2
    assert all("now-timer_late-tick" in path for path in paths)


def test_an_archive_that_cannot_write_says_so(tmp_path: Path) -> None:
    """Pins StoreError for what the double never has: a folder that is none."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError):
        SnapshotFolder(tmp_path / "file").keep("x", {})


@contextmanager
def real_keeper(config: Path) -> Iterator[Keeper]:
    """Run a keeper with a workload `w`, and a client of it on a loop of its own thread."""
    with running(config) as found, served() as loop:
        client = KeeperClient(
            loop, found.folder / "keeper.sock", lambda _message: None, lambda _id: 0, tuple, lambda _why: None
        )
        loop.call_soon_threadsafe(client.start)
        wait_for(lambda: client.connected, "the keeper's hello")
        yield client
        loop.call_soon_threadsafe(client.close)


@pytest.mark.parametrize("kind", ["double", "real"])
def test_a_keeper_says_what_became_of_an_order(kind: str, lab_config: Callable[..., Path]) -> None:
    """Pins that an order that was carried out is ok, with its time, and that one which cannot be says why."""
    config = lab_config(workload("w", ["/bin/sleep", "1000"], degrade=["low"]))
    with nullcontext(MemoryKeeper()) if kind == "double" else real_keeper(config) as keeper:
        done = keeper.order("restart", "w", "test")
        assert done.ok
        assert done.detail
        assert done.ms > 0
        assert keeper.order("degrade", "w", "test", "low").ok
    with nullcontext(MemoryKeeper(refusal="no such workload")) if kind == "double" else real_keeper(config) as keeper:
        assert "no such workload" in keeper.order("restart", "other", "test").detail


@pytest.mark.parametrize("kind", ["double", "real"])
def test_a_keeper_that_is_not_there_says_so(kind: str, tmp_path: Path) -> None:
    """Pins NotRunning, on which an action fails."""
    if kind == "double":
        keeper: Keeper = MemoryKeeper(error=NotRunning("no keeper"))
        with pytest.raises(NotRunning):
            keeper.order("restart", "w", "test")
        return
    with served() as loop:
        client = KeeperClient(loop, tmp_path / "none.sock", lambda _message: None, lambda _id: 0, tuple, lambda _why: None)
        with pytest.raises(NotRunning):
            client.order("restart", "w", "test")


@contextmanager
def served() -> Iterator[EpollLoop]:
    """Run a loop on a thread."""
    loop = EpollLoop(lambda _name, _error: None)
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield loop
    finally:
        loop.stop()
        thread.join()
        loop.close()


@pytest.mark.parametrize("kind", ["double", "real"])
def test_last_words_raise_only_what_they_may(kind: str, tmp_path: Path) -> None:
    """Pins StoreError for a disk that takes none, and that taking them back never fails."""
    now = Words("b" * 32, "1")
    file = DurableFile(tmp_path / "gone/intent.json")
    broken: Intents = (
        MemoryMachine(error=StoreError("full")) if kind == "double" else LastWords(file, HandClock(), now, lambda _text: None)
    )
    with pytest.raises(StoreError):
        broken.declare("reboot", "test")
    broken.revoke("reboot")
