"""The keeper as a real process, for tests: started, subscribed to, ordered, killed."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from tests.brokers import wait_for

Message = dict[str, Any]
PATIENCE_S = 20.0


@dataclass
class Client:
    """What agentd is to the keeper. Reads only when asked, or in `wait`."""

    sock: socket.socket
    heard: list[Message] = field(default_factory=list)
    rest: bytearray = field(default_factory=bytearray)

    def send(self, message: Message | bytes) -> None:
        """Send a message, or raw bytes."""
        self.sock.sendall(message if isinstance(message, bytes) else json.dumps(message).encode() + b"\n")

    def read(self) -> None:
        """Take what has come."""
        with suppress(BlockingIOError):
            while chunk := self.sock.recv(1 << 16, socket.MSG_DONTWAIT):
                self.rest += chunk
                while (end := self.rest.find(b"\n")) >= 0:
                    self.heard.append(json.loads(self.rest[:end]))
                    del self.rest[: end + 1]

    def of(self, **wanted: object) -> list[Message]:
        """Give what was heard with these values."""
        self.read()
        return [one for one in self.heard if all(one.get(key) == value for key, value in wanted.items())]

    def wait(self, count: int = 1, timeout_s: float = PATIENCE_S, **wanted: object) -> Message:
        """Wait until `count` such messages came, those of a subscription not counted if several; gives the last of them."""
        wanted |= {"now": None} if count > 1 else {}
        wait_for(lambda: len(self.of(**wanted)) >= count, lambda: f"{wanted} x {count}: {self.heard[-12:]}", timeout_s)
        return self.of(**wanted)[count - 1]

    def order(self, verb: str, name: str, timeout_s: float = PATIENCE_S, **more: object) -> Message:
        """Give an order and wait for its end."""
        number = f"{verb}-{name}-{time.monotonic_ns()}"
        self.send({"type": "order", "id": number, "verb": verb, "name": name, "reason": "test", **more})
        return self.wait(type="done", id=number, timeout_s=timeout_s)

    def state(self, name: str) -> Message:
        """Give the last state of a workload; waits for the first one."""
        self.wait(type="state", name=name)
        return self.of(type="state", name=name)[-1]

    def close(self) -> None:
        """Hang up."""
        self.sock.close()


@dataclass
class Keeper:
    """One running keeper."""

    config: Path
    process: subprocess.Popen[bytes]
    log: Path
    folder: Path

    def said(self) -> str:
        """Give its log."""
        return self.log.read_text(errors="replace")

    @contextmanager
    def client(self, keeper: str | None = None, since: int = 0) -> Iterator[Client]:
        """Subscribe."""
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(str(self.folder / "keeper.sock"))
            found = Client(sock)
            found.send({"type": "subscribe", "keeper": keeper, "since": since})
            found.wait(type="hello")
            yield found

    def end(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait; gives the exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


def begin(config: Path, **streams: Any) -> Keeper:
    """Start a keeper and wait until it is ready; the caller ends it. `streams`: where stdout and stderr go, else to a log."""
    log = config.with_name(f"keeper-{time.monotonic_ns()}.log")
    with log.open("ab") as file:
        command = [sys.executable, "-P", "-m", "agent.keeper", "--config", str(config)]
        where = {"stdout": file, "stderr": file} | streams
        process = subprocess.Popen(command, cwd="/", stdout=where["stdout"], stderr=where["stderr"])
    found = Keeper(config, process, log, config.parent / "run/keeper")
    memory = found.folder / "workloads.json"
    before = memory.stat().st_mtime_ns if memory.exists() else 0
    if streams:
        wait_for(
            lambda: (memory.exists() and memory.stat().st_mtime_ns != before) or process.poll() is not None, "keeper ready"
        )
    else:
        wait_for(lambda: "ready" in found.said() or process.poll() is not None, lambda: f"keeper ready: {found.said()[-500:]}")
    assert process.poll() is None, found.said()
    return found


def put_down(found: Keeper) -> None:
    """End a keeper and, if it was killed before, what it left running."""
    if found.process.poll() is None:
        found.process.terminate()
        found.process.wait(60)
    with suppress(OSError, ValueError):
        for row in cast("dict[str, Message]", json.loads((found.folder / "workloads.json").read_text())).values():
            with suppress(OSError):
                if row["pid"]:
                    os.killpg(row["pid"], signal.SIGKILL)


@contextmanager
def keeper(config: Path) -> Iterator[Keeper]:
    """Run a keeper until the block ends; it ends its workloads."""
    found = begin(config)
    try:
        yield found
    finally:
        put_down(found)


def workload(name: str, command: list[str], **more: object) -> str:
    """Give a `[[workload]]` table."""
    rows = "".join(f"{key} = {_toml(value)}\n" for key, value in {"name": name, "command": command, **more}.items())
    return f"[[workload]]\n{rows}"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + "}"
    return json.dumps(value)


def python(code: str) -> list[str]:
    """Give the command of a workload that runs `code`, with `from agent import watch` possible."""
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(Path(__file__).parent.parent)!r})\n{code}"]


LabConfig = Callable[..., Path]


def alive(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def open_fds() -> int:
    """Count the descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))
