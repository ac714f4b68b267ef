"""The keeper's hands in the moments that its loop seldom meets: built in a process of their own, whose children they reap."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
BUILT = """
import os, resource, signal, sys, time
from pathlib import Path
from agent.keeping.crew import Crew
from agent.keeping.plan import Plan, Rooms
from agent.linux.clock import SystemClock
from agent.linux.lossyjournal import LossyJournal
from agent.linux.loop import EpollLoop
from agent.tending.tender import Tender

loop = EpollLoop(lambda name, error: print(name, repr(error), file=sys.stderr))

def built(command, burst=5):
    plan = Plan("a", (sys.executable, "-c", command), {}, burst=burst)
    tender = Tender(loop, SystemClock(), Crew([plan]), Rooms(Path(sys.argv[1])), LossyJournal(), "k", dict(os.environ))
    tender.begin()
    return tender, tender._crew.lives["a"]

def wait(true):
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end, "not in time"
        time.sleep(0.01)

def run(seconds):
    loop.once(seconds, loop.stop, "end")
    loop.run()

def state(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
"""


def _run(code: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", BUILT + code, str(folder)], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


HANDED_OVER = """
tender, life = built('''
import os, socket, time
if child := os.fork():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
        s.sendto(b"MAINPID=%d" % child, os.environ["NOTIFY_SOCKET"])
    os._exit(0)
time.sleep(1000)
''')
first = life.pid
wait(lambda: state(first) == "Z")
tender.offspring.reap()
print(life.pid != first, state(life.pid) != "Z", life.state, life.restarts)
os.kill(life.pid, signal.SIGKILL)
"""


def test_a_death_that_is_seen_before_the_last_word_of_who_died(tmp_path: Path) -> None:
    """Pins that a program which names its child as the main process and ends is not taken for dead, nor that child killed.

    The signal of the death may be served before the datagram that was there first.
    """
    assert _run(HANDED_OVER, tmp_path) == ["True", "True", "running", "0"]


WITHOUT_DESCRIPTORS = """
tender, life = built("import time; time.sleep(1000)", burst=0)
first, taken = life.pid, []
os.kill(first, signal.SIGKILL)
run(0.5)
print(life.state)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC))
except OSError:
    pass
run(1)
print(life.pid, life.state, "descriptor" in life.reason)
for fd in taken:
    os.close(fd)
run(2.2)
print(life.pid not in (None, first), life.state, state(life.pid) != "Z")
os.kill(life.pid, signal.SIGKILL)
"""


def test_without_a_descriptor_left_nothing_runs_unwatched(tmp_path: Path) -> None:
    """Pins that a process which cannot be watched is none: it waits its turn, and runs when there are descriptors again."""
    assert _run(WITHOUT_DESCRIPTORS, tmp_path) == ["backoff", "None", "backoff", "True", "True", "running", "True"]
