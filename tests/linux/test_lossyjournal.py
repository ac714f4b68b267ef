"""The keeper's journal: on every kind of stderr, never waiting."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

from agent.linux.lossyjournal import LossyJournal


def test_a_full_pipe_costs_lines_not_time() -> None:
    """Pins that lines nobody takes are counted, and told with the next one; the pipe stays as it is for others."""
    reading, writing = os.pipe()
    journal = LossyJournal(writing)
    begun = time.monotonic()
    for _ in range(5000):
        journal.line("warning", "x" * 100, {"name": "a\nb"})
    assert time.monotonic() - begun < 5
    assert journal.lost > 0
    assert os.get_blocking(writing)
    lost = journal.lost
    while len(os.read(reading, 1 << 16)) == 1 << 16:
        pass
    journal.line("info", "again", {})
    assert os.read(reading, 1 << 16).splitlines()[-1] == f"<6>again lines_lost={lost}".encode()
    assert journal.lost == 0
    os.close(reading)
    journal.line("info", "nobody there", {})
    assert journal.lost == 1
    journal.close()
    os.close(writing)


def test_a_socket_and_a_file(tmp_path: Path) -> None:
    """Pins the journal's own socket (what systemd gives), and that a file is appended to."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        journal = LossyJournal(ours.fileno())
        journal.line("error", "a\x1b[31m", {"key": "ü\ud800"})
        assert theirs.recv(100) == "<3>a [31m key=ü \n".encode()
        for _ in range(5000):
            journal.line("info", "x" * 500, {})
        assert journal.lost > 0
        journal.close()
    path = tmp_path / "log"
    path.write_text("before\n")
    with path.open("a") as file:
        journal = LossyJournal(file.fileno())
        journal.line("info", "after", {})
        journal.close()
    assert path.read_text() == "before\n<6>after\n"


def test_a_descriptor_that_is_closed() -> None:
    """Pins that even this is no end."""
    fd = os.dup(2)
    os.close(fd)
    journal = LossyJournal(fd)
    journal.line("info", "x", {})
    assert journal.lost == 1
