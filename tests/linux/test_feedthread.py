"""The thread that feeds, and how it is protected: real threads, real limits, an ordinary user."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agent.linux import memlock
from agent.linux.feedthread import FeedThread
from tests.brokers import wait_for


def test_each_poke_feeds_and_several_at_once_feed_once() -> None:
    """Pins that it sleeps between pokes, and that a slow feed is followed by one more, not by all that waited."""
    begun, go, count = threading.Event(), threading.Event(), []

    def slow() -> None:
        count.append(threading.current_thread().name)
        begun.set()
        go.wait(5)

    thread = FeedThread(slow)
    thread.poke()
    assert begun.wait(5)
    for _ in range(5):
        thread.poke()
    go.set()
    wait_for(lambda: len(count) == 2, "the second feed")
    time.sleep(0.05)
    thread.close()
    assert count == ["feeding", "feeding"]
    assert thread.priority != "not started"


def test_it_ends_without_having_begun() -> None:
    """Pins that closing is always possible."""
    thread = FeedThread(lambda: None)
    thread.close()
    assert thread.priority == "not started"


def ordinary(*limits: str) -> list[str]:
    """Run as an ordinary user with these limits; gives what it says."""
    done = subprocess.run([sys.executable, "-m", "tests.limits", *limits], capture_output=True, text=True, check=False)
    if "not allowed to raise" in done.stderr:
        pytest.skip("root may not raise limits here (no CAP_SYS_RESOURCE); the virtual machines show it")
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.root
def test_limits_alone_protect_it() -> None:
    """Pins that the unit's limits are enough, without capabilities: memory locked as it is touched, real-time if allowed."""
    memory, priority, locked_kib = ordinary("MEMLOCK=infinity", "RTPRIO=10")
    assert memory == "locked"
    assert int(locked_kib) > 0
    assert priority.startswith(("real-time, FIFO 10", "ordinary (Operation not permitted"))


@pytest.mark.root
def test_without_the_limits_it_says_so_and_goes_on() -> None:
    """Pins that a finite limit locks nothing (mmap would fail beyond it), and that both are told."""
    memory, priority, locked_kib = ordinary("MEMLOCK=8388608", "RTPRIO=0")
    assert memory == "not locked (limit 8192 KiB: LimitMEMLOCK=infinity would allow it)"
    assert priority == "ordinary (Operation not permitted: LimitRTPRIO=10 would allow real-time)"
    assert locked_kib == "0"


def test_how_the_out_of_memory_killer_weighs_us(tmp_path: Path) -> None:
    """Pins the reading of /proc/self/oom_score_adj."""
    assert memlock.oom_score_adj() in range(-1000, 1001)
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/oom_score_adj").write_text("-500\n")
    assert memlock.oom_score_adj(tmp_path) == -500
    assert memlock.oom_score_adj(tmp_path / "nowhere") is None
