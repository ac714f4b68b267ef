"""The whole of telemetry as the daemon composes it, on a folder and a broker, for tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from agent.linux.clock import SystemClock
from agent.model import Data
from agent.ports import Loop
from agent.telemetry.bounds import Limits
from agent.telemetry.link import Broker
from agent.telemetry.marks import Marks
from agent.telemetry.messages import Names
from agent.telemetry.outbox import Outbox
from agent.telemetry.publisher import Publisher
from agent.telemetry.session import Identity
from agent.telemetry.spool import Spool
from agent.telemetry.tls import Tls
from tests.doubles import DirectLoop
from tests.telemetry.doubles import BOOT, ROOMY, event


class Rig:
    """Outbox, spool and publisher; what they report is in `told`."""

    def __init__(self, folder: Path, broker: Broker | None, boot_id: str = BOOT, limits: Limits = ROOMY) -> None:
        run = folder / "run"
        run.mkdir(parents=True, exist_ok=True)
        clock, marks, loop = SystemClock(), Marks(run, boot_id), cast("Loop", DirectLoop())
        self.told: list[str] = []
        self.states: list[tuple[str, str]] = []
        self.clock = clock
        outbox = Outbox(folder, limits, clock, marks, boot_id=boot_id, deliver=broker is not None)
        self.spool = Spool(outbox, marks, loop, clock, boot_id, self.told.append)
        self.publisher: Publisher | None = None
        if broker is not None:
            who = Identity(Names("lab", "gw-1"), boot_id)
            self.publisher = Publisher(
                broker, who, self.spool, clock, marks, random.random, lambda state, why: self.states.append((state, why))
            )
            self.publisher.introduce({"version": "test", "boot_id": boot_id})

    def start(self) -> None:
        """Start both threads."""
        self.spool.start(self.publisher)
        if self.publisher is not None:
            self.publisher.start()

    def state(self) -> str:
        """Give the publisher's state."""
        return str(self.publisher.state()["state"]) if self.publisher else "none"

    def emit(self, n: int = 1, text: str = "") -> list[int]:
        """Append `n` events one by one; gives their numbers."""
        numbers = [self.spool.next_seq() for _ in range(n)]
        for number in numbers:
            self.spool.append([event(number, t_wall=self.clock.wall(), text=text)], {}, lambda: None)
        return numbers

    def close(self) -> None:
        """Stop as the daemon does: first the publisher, then the spool."""
        if self.publisher is not None:
            self.publisher.close()
        self.spool.close()


@contextmanager
def rig(folder: Path, broker: Broker | None, boot_id: str = BOOT, limits: Limits = ROOMY) -> Iterator[Rig]:
    """Run it all."""
    whole = Rig(folder, broker, boot_id, limits)
    whole.start()
    try:
        yield whole
    finally:
        whole.close()


def here(port: int, **more: str | int | Tls) -> Broker:
    """Give a broker on this machine."""
    return Broker(host="127.0.0.1", port=port, **more)  # type: ignore[arg-type]


SAMPLE: Data = {"record": "metrics", "probes": {}}
