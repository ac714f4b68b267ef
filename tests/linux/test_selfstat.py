"""What the process itself costs."""

from __future__ import annotations

from pathlib import Path

from agent.linux import selfstat
from agent.linux.clock import pause


def test_only_sleeps_that_ended_are_wake_ups(tmp_path: Path) -> None:
    """Pins that the voluntary switches of all threads are summed up, and preemptions are not."""
    for thread in ("1", "2"):
        folder = tmp_path / "proc/self/task" / thread
        folder.mkdir(parents=True)
        (folder / "status").write_text("Name:\tx\nvoluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t50\n")
    (tmp_path / "proc/self/task/3").mkdir()  # it ends while we look
    assert selfstat.read(tmp_path).wakeups == 6


def test_this_process() -> None:
    """Pins against the running kernel: memory and time are known, and a sleep counts."""
    before = selfstat.read()
    pause(0.01)
    after = selfstat.read()
    assert after.uss_kib
    assert after.uss_kib > 1000
    assert after.cpu_s is not None
    assert after.wakeups > before.wakeups
