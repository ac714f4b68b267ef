"""The thread that feeds: a watchdog behind a slow bus (IPMI waits for its BMC) must not hold up the loop, nor the loop a feed.

It sleeps until it is poked, so it proves nothing by itself and costs no wake-up. It is real-time if the limits of this process
allow (`LimitRTPRIO=`): no capability, and no fault if they do not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

PRIORITY = 10  # of SCHED_FIFO: above everything ordinary, below the kernel's own threads (50)
_CLOSE_S = 5.0


class FeedThread:
    """Calls `feed` once for each poke, or once for several that came meanwhile."""

    def __init__(self, feed: Callable[[], None]) -> None:
        """Start nothing yet."""
        self.priority = "not started"
        self._feed = feed
        self._pokes: SimpleQueue[bool] = SimpleQueue()
        self._thread = Thread(target=self._run, name="feeding", daemon=True)

    def poke(self) -> None:
        """Have it feed."""
        if self._thread.ident is None:
            self._thread.start()
        self._pokes.put(True)

    def close(self) -> None:
        """End it, in bounded time."""
        if self._thread.ident is not None:
            self._pokes.put(False)
            self._thread.join(_CLOSE_S)

    def _run(self) -> None:
        self.priority = real_time()
        while self._pokes.get():
            while not self._pokes.empty():
                if not self._pokes.get():
                    return
            self._feed()


def real_time(priority: int = PRIORITY) -> str:
    """Make the calling thread real-time; say what it is now. Children do not inherit it."""
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(priority))
    except OSError as error:
        return f"ordinary ({error.strerror}: LimitRTPRIO={priority} would allow real-time)"
    return f"real-time, FIFO {priority}"
