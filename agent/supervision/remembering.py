"""What detectors and policies learned, kept over restarts: a small JSON file for each in state_dir, written when it changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from threading import Event as Signal
from threading import Lock
from typing import cast

from agent.errors import StoreError
from agent.linux.intent import DurableFile
from agent.model import Data
from agent.ports import Clock, Intents, Remembers

EVERY_S = 600.0
BOUND_S = 5.0  # a disk that hangs holds up a reboot for no longer


def those_of(parts: Mapping[str, object]) -> Mapping[str, Remembers]:
    """Give those that have something to remember."""
    return {name: cast("Remembers", one) for name, one in parts.items() if hasattr(one, "plain") and hasattr(one, "restore")}


class Remembering:
    """Belongs to the loop's thread; what is written goes through `later(job)`, in order, where it may block."""

    def __init__(
        self,
        folder: Path,
        those: Mapping[str, Remembers],
        clock: Clock,
        later: Callable[[Callable[[], None]], bool],
        say: Callable[[str], None],
    ) -> None:
        """Read nothing yet."""
        self._files = {name: DurableFile(folder / f"{name}.json") for name in those}
        self._those = those
        self._clock = clock
        self._later = later
        self._say = say
        self._saved: dict[str, Data] = {}
        self._pending: dict[str, Data] = {}
        self._lock = Lock()
        """Of `_pending`; nothing blocks while it is held."""
        self._failed: dict[str, str] = {}

    def restore(self) -> None:
        """Give everyone back what was kept; what cannot be read is told, and left behind."""
        for name, one in self._those.items():
            kept = self._files[name].read()
            if kept is None:
                if self._files[name].there:
                    self._say(f"{self._files[name].path}: no readable JSON of ours: begun anew")
                continue
            try:
                one.restore(kept, self._clock.mono_ns())
            except StoreError as error:
                self._say(f"{self._files[name].path}: {error}: begun anew")

    def save(self) -> None:
        """Have what changed since the last time written; what is still in line is written as it is by then."""
        for name, plain in self._changed().items():
            with self._lock:  # else the worker takes the old one in between, and nobody is left to write this
                waits = name in self._pending
                self._pending[name] = plain
            if not waits and not self._later(partial(self._write, name)):
                del self._pending[name]
                self._saved.pop(name, None)

    def _changed(self) -> dict[str, Data]:
        now = self._clock.mono_ns()
        fresh = {name: one.plain(now) for name, one in self._those.items()}
        changed = {name: plain for name, plain in fresh.items() if plain != self._saved.get(name)}
        self._saved |= changed
        return changed

    def _write(self, name: str) -> None:
        """On the worker's thread."""
        with self._lock:
            plain = self._pending.pop(name)
        try:
            self._files[name].write(plain)
        except StoreError as error:
            if str(error) != self._failed.get(name):
                self._failed[name] = str(error)
                self._say(f"what was learned cannot be kept: {error}")
            self._saved.pop(name, None)
        else:
            self._failed.pop(name, None)


class BoundedIntents:
    """`ports.Intents` over one that may hang with its disk: each waits behind what `later` has in line, and not for ever."""

    def __init__(self, inner: Intents, later: Callable[[Callable[[], None]], bool]) -> None:
        """Write through `later(job)`."""
        self._inner = inner
        self._later = later

    def declare(self, act: str, reason: str) -> None:
        """Write it, at most for `BOUND_S`. Raises StoreError."""
        over, failed = Signal(), list[StoreError]()

        def write() -> None:
            try:
                self._inner.declare(act, reason)
            except StoreError as error:
                failed.append(error)
            over.set()

        if not self._later(write) or not over.wait(BOUND_S):
            raise StoreError(f"the disk did not take it within {BOUND_S:g} s")
        if failed:
            raise failed[0]

    def revoke(self, act: str) -> None:
        """Take it back when the disk does."""
        self._later(lambda: self._inner.revoke(act))
