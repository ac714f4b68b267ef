"""What the broker has begun and does not wait for: each errand on a thread, its result in a pipe that the caller reads.

A restart takes as long as the service takes to stop; the broker's loop goes on serving meanwhile.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import time
from collections.abc import Callable
from threading import Lock, Thread

from agent.errors import GatewardenError, NotRunning, Refused
from agent.model import Json

MOST = 8  # at once
SAID = 2000  # characters of a result

Told = Callable[[dict[str, Json]], None]


class Errands:
    """Those under way, by name: two of one name would undo each other."""

    def __init__(self) -> None:
        """Begin none."""
        self._lock = Lock()
        self._running: set[str] = set()

    @property
    def busy(self) -> bool:
        """Whether one is under way."""
        return bool(self._running)

    def start(self, name: str, job: Callable[[], str], told: Told) -> int:
        """Begin `job`, which gives what it did; give the pipe that one line of JSON comes out of: `{"ok", "said"}`.

        Raises Refused while one of this name, or `MOST` of any, are under way.
        """
        with self._lock:
            if name in self._running or len(self._running) >= MOST:
                raise Refused(f"{name} is under way" if name in self._running else f"{MOST} errands are under way")
            reading, writing = os.pipe2(os.O_CLOEXEC)  # may fail: only then is it under way
            self._running.add(name)
        Thread(target=self._run, args=(name, job, told, writing), name=name[:15], daemon=True).start()
        return reading

    def _run(self, name: str, job: Callable[[], str], told: Told, writing: int) -> None:
        ok, said = _outcome(job)
        with self._lock:
            self._running.discard(name)
        with contextlib.suppress(OSError):  # the journal is gone
            told({"errand": name, "ok": ok, "said": said})
        with contextlib.suppress(OSError):  # nobody reads any more
            os.write(writing, json.dumps({"ok": ok, "said": said}).encode() + b"\n")  # fits into an empty pipe
        os.close(writing)


def _outcome(job: Callable[[], str]) -> tuple[bool, str]:
    try:
        return True, job()[:SAID]
    except GatewardenError as error:
        return False, str(error)[:SAID]
    except OSError as error:
        return False, f"{error.filename or 'system call'}: {error.strerror}"[:SAID]
    except Exception as error:  # noqa: BLE001 - the caller must hear of it
        return False, f"internal error: {type(error).__name__}: {error}"[:SAID]


def result(fd: int, timeout_s: float) -> str:
    """Read what an errand gave, and close the pipe. Raises Refused if it failed, NotRunning if it does not say in time."""
    end, text = time.monotonic() + timeout_s, b""
    try:
        while not text.endswith(b"\n"):
            if not select.select([fd], [], [], max(0.0, end - time.monotonic()))[0]:
                raise NotRunning(f"not done within {timeout_s:g} s; it goes on")
            chunk = os.read(fd, 4096)
            if not chunk or len(text) > 16 * SAID:
                raise NotRunning("the broker ended before it said what became of it")
            text += chunk
    finally:
        os.close(fd)
    found = json.loads(text)
    if not found["ok"]:
        raise Refused(str(found["said"]))
    return str(found["said"])
