"""A loop that runs in a thread of its own, for servers whose clients are the test."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from agent.linux.loop import EpollLoop


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
