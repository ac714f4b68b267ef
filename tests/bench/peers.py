"""The peers: run-queue latency as bpftrace and BCC measure it, on the same events of the same run."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench import programs
from tests.bench.programs import Spent
from tests.brokers import wait_for

BPFTRACE, BCC = "bpftrace", "BCC"
# An emulated CPU takes a minute for what clang does in two seconds.
PATIENCE_S = 300 if "GATEWARDEN_GUEST" in os.environ else 30
MOUNTS = "mount -t tracefs tracefs /sys/kernel/tracing; mount -t debugfs debugfs /sys/kernel/debug"


@dataclass(frozen=True, slots=True)
class Peer:
    """A running peer: its process, or None and why it does not run."""

    name: str
    pid: int | None
    why: str = ""

    def spent(self) -> Spent:
        """Give what all its programs ran until now."""
        return Spent() if self.pid is None else programs.of_process(self.pid)


@contextlib.contextmanager
def bpftrace() -> Iterator[Peer]:
    """Run the programs of bpftrace's runqlat."""
    with _running(BPFTRACE, ("bpftrace", str(Path(__file__).with_name("runqlat.bt"))), "apt-get install bpftrace") as peer:
        yield peer


@contextlib.contextmanager
def bcc() -> Iterator[Peer]:
    """Run BCC's runqlat, which compiles itself against the headers of the running kernel."""
    with _running(BCC, ("runqlat-bpfcc",), "apt-get install bpfcc-tools") as peer:
        yield peer


@contextlib.contextmanager
def _running(name: str, command: Sequence[str], remedy: str) -> Iterator[Peer]:
    """Keep it in a mount namespace of its own, as tracefs may be missing here."""
    if shutil.which(command[0]) is None:
        yield Peer(name, None, f"{command[0]} is not installed ({remedy})")
        return
    script = f'{{ {MOUNTS}; }} 2>/dev/null; exec "$0" "$@"'
    child = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", script, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        if _attached(child):
            yield Peer(name, child.pid)
        else:
            child.kill()
            yield Peer(name, None, f"{name} ended: " + " ".join((child.communicate()[1] or "said nothing").split())[-200:])
    finally:
        child.send_signal(signal.SIGINT)
        try:
            child.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            child.kill()
            child.communicate()


def _attached(child: subprocess.Popen[str]) -> bool:
    """Wait until its programs have run, which they do once they are attached."""
    with contextlib.suppress(AssertionError, OSError):
        wait_for(lambda: child.poll() is not None or programs.of_process(child.pid).runs > 0, "the peer", PATIENCE_S)
        time.sleep(1)
    return child.poll() is None and programs.of_process(child.pid).runs > 0
