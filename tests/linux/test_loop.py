"""The loop on real timerfds, pipes, signals, threads and pidfds."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.linux.loop import FAULTS, EpollLoop
from agent.ports import Loop

Errors = list[tuple[str, Exception]]


@pytest.fixture
def errors() -> Errors:
    """Give the list of what the loop reported."""
    return []


@pytest.fixture
def loop(errors: Errors) -> Iterator[EpollLoop]:
    """Give a loop that stops by itself after 10 s."""
    made = EpollLoop(lambda name, error: errors.append((name, error)))
    guard = made.once(10, made.stop, "guard")
    yield made
    guard.cancel()
    made.close()


def _open_fds() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_is_the_port(loop: EpollLoop) -> None:
    """Pins that the adapter has the port's shape (mypy checks it too)."""
    port: Loop = loop
    assert port is loop


def test_once_fires_once_and_after_its_time(loop: EpollLoop) -> None:
    """Pins that `once` is never early, fires one time, and costs no descriptor."""
    before = _open_fds()
    fired: list[float] = []
    start = time.monotonic()
    loop.once(0.05, lambda: fired.append(time.monotonic() - start), "once")
    loop.once(0.2, loop.stop, "stop")
    loop.run()
    assert len(fired) == 1
    assert 0.05 <= fired[0] < 0.2
    assert _open_fds() == before


def test_a_cancelled_timer_is_silent(loop: EpollLoop) -> None:
    """Pins that a cancelled timer neither fires nor wakes the loop, and that cancelling twice is fine."""
    timer = loop.once(0.02, lambda: pytest.fail("cancelled"), "cancelled")
    timer.cancel()
    timer.cancel()
    loop.once(0.1, loop.stop, "stop")
    loop.run()
    assert loop.wakeups == 1


def test_an_idle_loop_is_not_woken(loop: EpollLoop) -> None:
    """Pins that nothing wakes the loop without a cause: half a second, one wake-up (the timer that ends it)."""
    loop.once(0.5, loop.stop, "stop")
    loop.run()
    assert loop.wakeups == 1


def test_periods_share_their_wakeups(loop: EpollLoop) -> None:
    """Pins that timers whose periods have common multiples expire together, whenever they were made."""
    ticks = {"fast": 0, "slow": 0}

    def tick(name: str) -> None:
        ticks[name] += 1

    loop.every(0.05, lambda: tick("fast"), "fast")
    time.sleep(0.013)
    loop.every(0.1, lambda: tick("slow"), "slow")
    loop.once(0.52, loop.stop, "stop")
    loop.run()
    assert ticks["slow"] >= 4
    assert ticks["fast"] >= 8
    assert loop.wakeups <= ticks["fast"] + 2


def test_missed_periods_are_not_made_up_for(loop: EpollLoop) -> None:
    """Pins that a callback that slept over several periods is called once for them."""
    calls: list[float] = []

    def slow() -> None:
        calls.append(time.monotonic())
        if len(calls) == 1:
            time.sleep(0.2)
        else:
            loop.stop()

    loop.every(0.02, slow, "slow")
    loop.run()
    assert len(calls) == 2


def test_a_period_must_be_positive(loop: EpollLoop) -> None:
    """Pins that a zero period, which would never fire, is an error where it is made."""
    with pytest.raises(ValueError, match="period"):
        loop.every(0, loop.stop, "never")


def test_a_callback_that_raises_does_not_end_the_loop(loop: EpollLoop, errors: Errors) -> None:
    """Pins that an exception is reported under the callback's name, and that later callbacks run."""

    def broken() -> None:
        raise KeyError("broken")

    loop.once(0.01, broken, "broken")
    loop.once(0.05, loop.stop, "stop")
    loop.run()
    assert [(name, type(error)) for name, error in errors] == [("broken", KeyError)]


def test_a_reader_that_only_fails_is_dropped(loop: EpollLoop, errors: Errors) -> None:
    """Pins that an fd whose callback raises each time, so never drains it, cannot spin the loop for ever."""
    read_end, write_end = os.pipe()
    os.write(write_end, b"x")

    def broken() -> None:
        raise OSError("broken")

    loop.on_readable(read_end, broken, "broken")
    loop.once(0.2, loop.stop, "stop")
    loop.run()
    assert len(errors) == FAULTS + 1
    assert loop.wakeups <= FAULTS + 2
    os.close(read_end)
    os.close(write_end)


def test_a_forgotten_fd_of_the_same_batch_is_not_called(loop: EpollLoop) -> None:
    """Pins that a callback may forget another ready fd, close it, and have its number used anew, without a stray call."""
    first, second = socket.socketpair(), socket.socketpair()
    called: list[str] = []

    def take(name: str, mine: socket.socket, other: socket.socket) -> None:
        called.append(name)
        loop.forget(other.fileno())
        loop.forget(mine.fileno())

    loop.on_readable(first[0].fileno(), lambda: take("first", first[0], second[0]), "first")
    loop.on_readable(second[0].fileno(), lambda: take("second", second[0], first[0]), "second")
    first[1].send(b"x")
    second[1].send(b"x")
    loop.once(0.05, loop.stop, "stop")
    loop.run()
    assert len(called) == 1
    for pair in (first, second):
        for sock in pair:
            sock.close()


def test_writable_is_told_until_it_is_taken_back(loop: EpollLoop) -> None:
    """Pins `on_writable`: called while the fd takes bytes, silent after None, reading unaffected."""
    ours, theirs = socket.socketpair()
    told: list[str] = []

    def written() -> None:
        told.append("write")
        loop.on_writable(ours.fileno(), None)
        theirs.send(b"x")

    def read() -> None:
        told.append(ours.recv(1).decode())
        loop.stop()

    loop.on_readable(ours.fileno(), read, "pair")
    loop.on_writable(ours.fileno(), written)
    loop.run()
    assert told == ["write", "x"]
    loop.forget(ours.fileno())
    ours.close()
    theirs.close()


def test_a_hangup_that_nobody_reads_does_not_spin(loop: EpollLoop) -> None:
    """Pins that an fd kept without a reader (EPOLLHUP cannot be masked) is dropped once its peer is gone."""
    ours, theirs = socket.socketpair()
    loop.on_readable(ours.fileno(), None, "muted")
    theirs.close()
    loop.once(0.1, loop.stop, "stop")
    loop.run()
    assert loop.wakeups <= 2
    ours.close()


def test_calls_from_threads_run_on_the_loop(loop: EpollLoop, errors: Errors) -> None:
    """Pins that every call from any thread runs, in order per thread, on the loop's thread; a broken one hurts no other."""
    here = threading.get_ident()
    seen: dict[int, list[int]] = {0: [], 1: []}

    def worker(number: int) -> None:
        for count in range(200):
            loop.call_soon_threadsafe(lambda count=count: note(number, count))  # type: ignore[misc]

    def note(number: int, count: int) -> None:
        assert threading.get_ident() == here
        seen[number].append(count)
        if count == 100:
            raise RuntimeError("broken")
        if all(len(counts) == 200 for counts in seen.values()):
            loop.stop()

    threads = [threading.Thread(target=worker, args=(number,)) for number in seen]
    for thread in threads:
        thread.start()
    loop.run()
    for thread in threads:
        thread.join()
    assert seen == {0: list(range(200)), 1: list(range(200))}
    assert len(errors) == 2


def test_signals_are_callbacks() -> None:
    """Pins that SIGTERM, SIGINT and SIGHUP reach their callbacks on the loop, and that close gives the former handlers back."""
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    seen: list[str] = []
    loop = EpollLoop(lambda _name, _error: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.on_signal(number, lambda number=number: seen.append(number.name))  # type: ignore[misc]
    loop.on_signal(signal.SIGINT, loop.stop)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        os.kill(os.getpid(), number)
    loop.run()
    assert sorted(seen) == ["SIGHUP", "SIGTERM"]
    loop.close()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before


def test_a_pidfd_is_readable_at_death(loop: EpollLoop) -> None:
    """Pins that the loop takes a pidfd: the death of a real process is one callback."""
    child = subprocess.Popen(["sleep", "60"])
    pidfd = os.pidfd_open(child.pid)
    deaths: list[int] = []

    def died() -> None:
        deaths.append(child.wait())
        loop.forget(pidfd)
        loop.stop()

    loop.on_readable(pidfd, died, "child")
    loop.once(0.02, child.kill, "kill")
    loop.run()
    os.close(pidfd)
    assert deaths == [-signal.SIGKILL]


def test_stop_from_another_thread(loop: EpollLoop) -> None:
    """Pins that `stop` works from any thread, also before `run`, and that the loop can run again."""
    loop.stop()
    loop.run()
    threading.Timer(0.05, loop.stop).start()
    start = time.monotonic()
    loop.run()
    assert time.monotonic() - start < 5
