"""The list of processes for a support bundle."""

from __future__ import annotations

import os

from agent.linux import processes


def test_this_process_is_listed_without_its_command_line() -> None:
    """We are in the list, with times and memory; no field holds arguments."""
    rows = {row["pid"]: row for row in processes.largest(10_000)}
    ours = rows[os.getpid()]
    assert (ours["ppid"], ours["status"]) == (os.getppid(), "running")
    assert isinstance(ours["rss_kib"], int)
    assert ours["rss_kib"] > 1000
    assert "cmdline" not in ours


def test_the_list_is_bounded_and_the_busiest_come_first() -> None:
    """At most `limit` rows, by CPU time."""
    rows = processes.largest(3)
    assert len(rows) <= 3
    times = [float(str(row["cpu_s"])) for row in rows]
    assert times == sorted(times, reverse=True)
