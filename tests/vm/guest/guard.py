"""A small agentd: one required workload, the real gate, the real device. It says what happens, durably, as it may not live on.

python -m tests.vm.guest.guard --state DIR --log FILE --device watchdog0 --timeout 12 --stop-after 8
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from agent.config import Watchdog
from agent.linux.clock import SystemClock, boot_id
from agent.linux.intent import DurableFile
from agent.linux.loop import EpollLoop
from agent.model import Data, Sighting
from agent.resets.causes import Words
from agent.resets.lastwords import LastWords
from agent.watchdogs.owned import Watchdogs, here

WORK = ("sh", "-c", "while :; do echo; sleep 0.5; done")
HOG = ("sh", "-c", "while :; do :; done")
TICK_S = 2.0


def said(log: Path, line: Data) -> None:
    """Append a line and have it on the disk."""
    with log.open("a") as file:
        file.write(json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


def fault(log: Path, name: str, error: Exception) -> None:
    """Keep what went wrong."""
    said(log, {"kind": "fault", "in": name, "error": repr(error)})


def guarding(state: Path, log: Path, device: str, timeout_s: int) -> tuple[EpollLoop, Watchdogs]:
    """Put the real parts together."""
    clock, loop = SystemClock(), EpollLoop(partial(fault, log))

    def told(found: Sighting) -> None:
        said(log, {"kind": found.kind, "subject": found.subject, **found.data})

    words = LastWords(DurableFile(state / "intent.json"), clock, Words(boot_id(), "vm"), lambda text: said(log, {"kind": text}))
    settings = Watchdog(mode="own", devices=(Path("/dev", device),), timeout_s=timeout_s, pretimeout_s=max(1, timeout_s // 3))
    return loop, Watchdogs(settings, loop, clock, words, told, here())


def beating(loop: EpollLoop, dogs: Watchdogs) -> subprocess.Popen[bytes]:
    """Start the workload: every line of it is a report."""
    work = subprocess.Popen(WORK, stdout=subprocess.PIPE)
    assert work.stdout is not None
    end, clock = work.stdout.fileno(), SystemClock()

    def report() -> None:
        os.read(end, 4096)
        dogs.report("work", clock.mono_ns())

    loop.on_readable(end, report, "work")
    return work


def starved(loop: EpollLoop, hogs: list[subprocess.Popen[bytes]], count: int, seconds: float, done: Callable[[], None]) -> None:
    """Keep every CPU busy `count` times over for a while."""
    hogs += [subprocess.Popen(HOG) for _ in range(count)]

    def end() -> None:
        for hog in hogs:
            hog.kill()
            hog.wait()
        done()

    loop.once(seconds, end, "relief")


def main() -> int:
    """Run until reset, or until the machine was starved for long enough."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--state", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    parser.add_argument("--device", required=True)
    parser.add_argument("--timeout", type=int, default=12)
    parser.add_argument("--stop-after", type=float, help="stop the workload (SIGSTOP) after so many seconds")
    parser.add_argument("--starve", type=float, help="starve the machine for so many seconds instead, then end")
    options = parser.parse_args()
    loop, dogs = guarding(options.state, options.log, options.device, options.timeout)
    dogs.require(["work"])
    dogs.start()
    work = beating(loop, dogs)
    loop.every(TICK_S, dogs.tick, "tick")
    if options.stop_after:
        loop.once(options.stop_after, lambda: work.send_signal(signal.SIGSTOP), "stop the work")
    if options.starve:
        starved(loop, [], 4 * (os.cpu_count() or 1), options.starve, loop.stop)
    loop.run()
    for row in dogs.rows():
        said(options.log, {"kind": "row", "row": row})
    dogs.close(shutdown=False)
    work.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
