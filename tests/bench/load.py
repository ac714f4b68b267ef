"""A bounded load, in processes of its own: `python -I -S load.py pingpong|timers SECONDS COUNT`.

pingpong  COUNT pairs of processes that throw a byte to and fro over two pipes, every second pair held on one CPU: like
          hackbench, nearly nothing but wake-ups and switches.
timers    COUNT processes that wait for a timerfd of 0.2 ms (hrtimer), and four times as many that wait for socket timeouts of
          4 ms (timer_list), which end a jiffy or two later.
Prints how many rounds all of them made. Each process ends a little after its time, whatever happens.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable

GRACE_S = 5
CHECK_EVERY = 64
PERIOD_NS = 200_000
TIMEOUT_US = 4000
TIMEOUTS = 4  # for each timerfd: the timer wheel has nothing shorter than a jiffy

Side = Callable[[], int]
Start = Callable[[Side], None]


def pingpong(end: float, index: int, start: Start) -> None:
    """Start the two sides of a pair."""
    there, back = os.pipe(), os.pipe()
    ends = {*there, *back}

    def side(source: int, target: int, *, serves: bool) -> Side:
        def run() -> int:
            for fd in ends - {source, target}:
                os.close(fd)
            if index % 2:
                cpus = sorted(os.sched_getaffinity(0))
                os.sched_setaffinity(0, {cpus[index // 2 % len(cpus)]})
            return _throw(source, target, end, serves=serves)

        return run

    start(side(back[0], there[1], serves=True))
    start(side(there[0], back[1], serves=False))
    for fd in ends:  # whoever is left over reads the end of its pipe
        os.close(fd)


def _throw(source: int, target: int, end: float, *, serves: bool) -> int:
    rounds = 0
    with contextlib.suppress(BrokenPipeError):
        if serves:
            os.write(target, b"x")
        while os.read(source, 1):
            rounds += 1
            if rounds % CHECK_EVERY == 0 and time.monotonic() > end:
                break
            os.write(target, b"x")
    return rounds if serves else 0


def timers(end: float, _index: int, start: Start) -> None:
    """Start one waiter for a timerfd, several for timeouts."""
    start(lambda: _timerfd(end))
    for _ in range(TIMEOUTS):
        start(lambda: _timeouts(end))


def _timerfd(end: float) -> int:
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.timerfd_create(time.CLOCK_MONOTONIC, 0)
    libc.timerfd_settime(fd, 0, struct.pack("=4q", 0, PERIOD_NS, 0, PERIOD_NS), None)
    rounds = 0
    while time.monotonic() < end:
        rounds += int.from_bytes(os.read(fd, 8), sys.byteorder)
    return rounds


def _timeouts(end: float) -> int:
    """Wait in sock_rcvtimeo, whose schedule_timeout() is a timer_list; poll and select would be hrtimers."""
    ours, _theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@2l", 0, TIMEOUT_US))
    rounds = 0
    while time.monotonic() < end:
        with contextlib.suppress(BlockingIOError):
            ours.recv(1)
        rounds += 1
    return rounds


KINDS = {"pingpong": pingpong, "timers": timers}


def main(kind: str, seconds: float, count: int) -> int:
    """Run `count` of `kind` for `seconds`; give the sum of their rounds."""
    end = time.monotonic() + seconds
    reader, writer = os.pipe()

    def start(run: Side) -> None:
        if os.fork():
            return
        try:
            signal.alarm(int(seconds) + GRACE_S)
            os.write(writer, b"%d\n" % run())
        finally:
            os._exit(0)

    for index in range(count):
        KINDS[kind](end, index, start)
    os.close(writer)
    with os.fdopen(reader) as results:
        return sum(int(line) for line in results)


if __name__ == "__main__":
    print(main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3])))
