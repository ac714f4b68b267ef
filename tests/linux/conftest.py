"""A loop that runs in a thread of its own, for servers whose clients are the test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest

from agent.linux.loop import EpollLoop
from agent.linux.peer import Listener

Make = Callable[[], Listener]


@pytest.fixture
def reported() -> list[str]:
    """Give the list of what the serving loop reported, as `name: error`."""
    return []


@pytest.fixture
def serving(reported: list[str]) -> Iterator[EpollLoop]:
    """Give a loop that runs in a thread; what it reports is in `reported`."""
    loop = EpollLoop(lambda name, error: reported.append(f"{name}: {error!r}"))
    thread = threading.Thread(target=loop.run)
    thread.start()
    yield loop
    loop.stop()
    thread.join()
    loop.close()


def on_loop(loop: EpollLoop, call: Callable[[], None]) -> None:
    """Run `call` on the loop's own thread and wait for its end."""
    done = threading.Event()

    def run() -> None:
        call()
        done.set()

    loop.call_soon_threadsafe(run)
    assert done.wait(5)


@pytest.fixture
def listening(serving: EpollLoop) -> Iterator[Callable[[Make], Listener]]:
    """Give a function that makes a listener on the loop's own thread; all are closed afterwards."""
    made: list[Listener] = []

    def start(make: Make) -> Listener:
        on_loop(serving, lambda: made.append(make()))
        return made[-1]

    yield start
    for listener in made:
        on_loop(serving, listener.close)
