"""Opening what lies at a path: only regular files, and never a wait. All real: FIFOs, devices, /proc."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent import regular


def a_socket(path: Path) -> None:
    """Put the file of a socket there."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(path))


ODD: dict[str, Callable[[Path], object]] = {
    "a FIFO": os.mkfifo,
    "a directory": Path.mkdir,
    "a socket": a_socket,
    "a symbolic link": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_regular_file_is_named_and_not_opened(tmp_path: Path, kind: str) -> None:
    """Pins that a FIFO, a directory, a socket and a link to a device are refused at once, and named as what they are."""
    path = tmp_path / "x"
    ODD[kind](path)
    assert regular.odd(path) == kind
    with pytest.raises(OSError, match="not a regular file"):
        regular.read(path, 10)


def test_a_regular_file_is_read_through_links_up_to_the_limit(tmp_path: Path) -> None:
    """Pins the good case, the bound, and that nothing at a path is nothing odd."""
    path, link = tmp_path / "x", tmp_path / "link"
    path.write_bytes(b"abc" * 50_000)
    link.symlink_to(path)
    assert regular.read(link, 100_000) == (b"abc" * 50_000)[:100_000]
    assert regular.read(path, 1 << 20) == b"abc" * 50_000
    assert regular.odd(path) == regular.odd(tmp_path / "none") == ""


@pytest.mark.root
def test_a_file_that_waits_is_not_waited_for() -> None:
    """Pins that /proc/kmsg, which looks regular and blocks its reader, ends in an error, not in a wait."""
    program = "from agent import regular; from pathlib import Path\n"
    program += "for _ in range(3):\n    regular.read(Path('/proc/kmsg'), 1 << 30)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False)
    assert done.returncode == 1
    assert f"[Errno {errno.EAGAIN}] its contents do not come without waiting" in done.stderr
