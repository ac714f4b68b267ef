"""Who belongs to whom, from /proc texts, fixture trees and real processes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.linux import family
from agent.linux.family import Stat
from tests.brokers import wait_for

LINE = "4711 ({}) S 4 4710 4709 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 {} 1000 100 more"


@pytest.mark.parametrize("name", ["sleep", "a) S 1 (b", "((", "a\nb", ""])
def test_a_stat_line_with_any_name(name: str) -> None:
    """Pins that fields count from the last bracket: a program may call itself as it likes."""
    assert family.parse_stat(LINE.format(name, 99)) == Stat("S", 4, 4710, 4709, 99)


@given(st.text(max_size=300))
def test_any_text_is_a_stat_line_or_none(text: str) -> None:
    """Pins that no text raises."""
    family.parse_stat(text)


def _tree(root: Path, **parents: int) -> Path:
    for pid, parent in parents.items():
        folder = root / pid.removeprefix("p")
        folder.mkdir()
        (folder / "stat").write_text(f"{folder.name} (x) S {parent} 1 {5 if pid == 'p7' else 1} " + "0 " * 40)
        (folder / "environ").write_bytes(b"A=1\0NOTIFY_SOCKET=/n\0" if pid == "p9" else b"A=NOTIFY_SOCKET=/n\0")
    return root


def test_descent_session_and_environment(tmp_path: Path) -> None:
    """Pins the four ways to belong to process 5, and that a circle or a gap in the tree ends the search."""
    root = _tree(tmp_path, p5=1, p6=5, p60=6, p7=1, p8=1, p9=1, p20=21, p21=20)
    mine = [pid for pid in (5, 6, 60, 7, 8, 9, 20, 21, 99) if family.belongs(pid, 5, b"NOTIFY_SOCKET=/n", root)]
    assert mine == [5, 6, 60, 7, 9]


def test_children_of_this_process(tmp_path: Path) -> None:
    """Pins that children are found, with and without CONFIG_PROC_CHILDREN."""
    with subprocess.Popen(["sleep", "100"]) as child:
        assert child.pid in family.children()
        (tmp_path / str(child.pid)).symlink_to(f"/proc/{child.pid}")
        assert family.children(tmp_path) == [child.pid]
        child.kill()


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process with an environment of its own."""
    child = subprocess.Popen(["sleep", "100"], env={"NOTIFY_SOCKET": "/n"})
    yield child
    child.kill()
    child.wait()


def test_the_environment_of_a_real_process(sleeper: subprocess.Popen[bytes]) -> None:
    """Pins whole entries, and none for a process that is gone."""
    wait_for(lambda: family.environ(sleeper.pid) == {b"NOTIFY_SOCKET=/n"}, "exec")
    sleeper.kill()
    sleeper.wait()
    assert family.environ(sleeper.pid) == frozenset()
    assert family.stat(sleeper.pid) is None
    assert not family.belongs(sleeper.pid, os.getpid(), b"NOTIFY_SOCKET=/n")
