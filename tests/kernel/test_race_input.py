"""What `race prove` and `race hunt` refuse on a real kernel: one line that says why, exit code 2, nothing armed."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from agent.linux import kallsyms

AGENTCTL = Path(sys.executable).with_name("agentctl")
pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="watchpoints with a program on them work on x86-64 only"),
]


def address(name: str) -> str:
    """Give the address of a symbol of this kernel."""
    with kallsyms.PATH.open() as lines:
        return next(f"0x{line.split()[0]}" for line in lines if line.split()[2] == name)


def named(name: str) -> bool:
    """Whether this kernel names its variables."""
    with kallsyms.PATH.open() as lines:
        return any(line.split()[2] == name for line in lines)


def refusal(*arguments: str) -> str:
    """Run `agentctl race`, which shall refuse; give what it says."""
    done = subprocess.run([AGENTCTL, "race", *arguments], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ("schedule_timeout", "is text (a function), not data"),
        ("0x1000", "is a user-space address (or a per-CPU offset), want kernel data"),
        ("0xffffffffffffffff", "no memory can be read at 0xffffffffffffffff"),
        ("0xffff888000001001:8", "is not a multiple of its length 8; allowed: :1"),
        ("0xffff888000001000:3", "1, 2, 4 or 8 bytes long, not 3"),
        ("nosuch:frames", "no kernel symbol 'nosuch:frames'"),
        ("a b", "is no place to watch, want [*]SYMBOL[+OFF][:LEN]"),
    ],
)
def test_no_place(place: str, said: str) -> None:
    """Pins each refusal of a place."""
    assert said in refusal("prove", place, "--seconds", "1")


def test_an_address_of_text() -> None:
    """Pins that a number does not get round the refusal of text."""
    assert "is text (schedule_timeout), want data" in refusal("prove", address("schedule_timeout"), "--seconds", "1")


@pytest.mark.skipif(not named("jiffies_64"), reason="this kernel names no variables (CONFIG_KALLSYMS_ALL)")
def test_names_of_variables() -> None:
    """Pins the nearest names for an unknown one, and the refusal of per-CPU data."""
    assert "did you mean jiffies_64" in refusal("prove", "jifies_64", "--seconds", "1")
    assert "is per-CPU data" in refusal("prove", "runqueues", "--seconds", "1")


@pytest.mark.skipif(named("jiffies_64"), reason="this kernel names its variables")
def test_a_kernel_without_names() -> None:
    """Pins that a kernel which names no variables is told as that."""
    assert "CONFIG_KALLSYMS_ALL is off" in refusal("prove", "jiffies_64", "--seconds", "1")


def test_no_module() -> None:
    """Pins the refusal of a module that is not there, and of what is no name of one."""
    assert "module nosuch is not loaded" in refusal("hunt", "--module", "nosuch", "--seconds", "1")
    assert "is no name of a module" in refusal("hunt", "--module", "a/b", "--seconds", "1")
