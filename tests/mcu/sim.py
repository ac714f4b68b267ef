"""The simulator of firmware_hooks/port/host as a process, and a `McuLink` on it in a real loop: for tests."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from agent.linux.clock import SystemClock, chance
from agent.linux.loop import EpollLoop
from agent.linux.serial import Line
from agent.mcu.ttl import Bounds
from agent.model import Sighting
from agent.watchdogs.mculink import McuLink

ROOT = Path(__file__).parents[2]
HOOKS = ROOT / "firmware_hooks"
BUILT = ROOT / "build/firmware"


@cache
def built(target: str = "all", out: str = "") -> Path:
    """Build what is not built yet, and give the folder."""
    subprocess.run(["make", "-s", "-C", str(HOOKS), target], check=True)
    return BUILT / out


@dataclass
class Sim:
    """A running microcontroller; `events` are what it told so far."""

    process: subprocess.Popen[str]
    link: Path
    events: list[dict[str, Any]] = field(default_factory=list)

    def read(self) -> None:
        """Collect its lines until it ends."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))

    def told(self, event: str) -> list[dict[str, Any]]:
        """Give the events of one name."""
        return [one for one in list(self.events) if one["event"] == event]

    def power(self) -> list[bool]:
        """Give the states of the power FET, in order."""
        return [one["on"] for one in self.told("power")]


@contextmanager
def simulator(folder: Path, **options: int) -> Iterator[Sim]:
    """Run the sanitized simulator with `options` (`boot_ms=300` is `--boot-ms 300`); its port is `folder/port`."""
    link = folder / "port"
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    command = [str(built("sanitized", "sanitized") / "gatewarden-mcu"), "--link", str(link), *words]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        sim = Sim(process, link)
        reader = threading.Thread(target=sim.read)
        reader.start()
        try:
            until(lambda: bool(sim.told("power")))
            yield sim
        finally:
            process.terminate()
            reader.join()
            assert process.wait() == 0  # the sanitizers found nothing


def until(true: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for something to become true."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.005)


@dataclass
class Linked:
    """A link whose loop runs in a thread."""

    link: McuLink
    loop: EpollLoop
    seen: list[Sighting]
    faults: list[str]

    def state(self) -> str:
        """Give the state of the link."""
        return self.link.client.state

    def feed(self, while_: Callable[[], bool], period_s: float = 0.05) -> None:
        """Feed as the gate would, as long as `while_` holds; a link that is away is tried again."""
        while while_():
            with suppress(OSError):
                self.link.feed()
            time.sleep(period_s)

    def feed_until(self, true: Callable[[], bool], seconds: float = 15.0) -> None:
        """Feed until something is true."""
        end = time.monotonic() + seconds
        self.feed(lambda: not true() and time.monotonic() < end)
        assert true(), f"{self.link.client.state}: {self.link.client.reason}"

    def kinds(self) -> list[str]:
        """Give the kinds of what was told."""
        return [one.kind for one in self.seen]

    def on_loop(self, call: Callable[[], object]) -> None:
        """Run `call` on the loop and wait for it."""
        done = threading.Event()

        def run() -> None:
            call()
            done.set()

        self.loop.call_soon_threadsafe(run)
        assert done.wait(5)


@contextmanager
def linked(line: Line, bounds: Bounds = Bounds(1_000, 4_000)) -> Iterator[Linked]:  # noqa: B008 - frozen
    """Run a link on `line`."""
    seen: list[Sighting] = []
    faults: list[str] = []
    loop = EpollLoop(lambda name, error: faults.append(f"{name}: {error!r}"))
    link = McuLink(line, loop, SystemClock(), seen.append, lambda: int(chance() * 2**32), bounds)
    loop.call_soon_threadsafe(link.start)
    thread = threading.Thread(target=loop.run)
    thread.start()
    both = Linked(link, loop, seen, faults)
    try:
        yield both
    finally:
        both.on_loop(link.close)
        loop.stop()
        thread.join()
        loop.close()
    assert faults == []
