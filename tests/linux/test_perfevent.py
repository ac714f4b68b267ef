"""Watchpoints: what the kernel's refusals mean, and which machines are refused before."""

from __future__ import annotations

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import NotPermitted, ProbeError, Unsupported
from agent.linux import perfevent


@pytest.mark.parametrize(
    ("code", "lockdown", "kind", "words"),
    [
        (errno.ENOSPC, "", Unsupported, "no debug register is free"),
        (errno.ENOENT, "", Unsupported, "the kernel has no hw_breakpoint"),
        (errno.EOPNOTSUPP, "", Unsupported, "the kernel has no hw_breakpoint"),
        (errno.EPERM, "confidentiality", NotPermitted, "locked down to confidentiality"),
        (errno.EPERM, "integrity", NotPermitted, "needs CAP_SYS_ADMIN"),
        (errno.EACCES, "", NotPermitted, "needs CAP_SYS_ADMIN"),
        (errno.EINVAL, "", Unsupported, "the kernel watches no such address"),
        (errno.EMFILE, "", Unsupported, "Too many open files"),
    ],
)
def test_refusals(code: int, lockdown: str, kind: type[ProbeError], words: str) -> None:
    """Pins the error and the remedy for each refusal."""
    found = perfevent.refusal(code, 0xFFFFFFFF82000000, lockdown)
    assert type(found) is kind
    assert words in str(found)
    assert found.remedy


def test_other_machines_are_refused() -> None:
    """Pins that arm64, where a program on a watchpoint would trap for ever, is refused by name."""
    with pytest.raises(Unsupported, match="works on x86_64 only, this is aarch64"):
        perfevent.require_machine("aarch64")
    perfevent.require_machine("x86_64")


@given(st.lists(st.integers(0, 300), min_size=1, unique=True))
def test_cpu_lists(cpus: list[int]) -> None:
    """Pins single CPUs and spans."""
    assert perfevent.parse_cpus(",".join(map(str, sorted(cpus))) + "\n") == tuple(sorted(cpus))
    assert perfevent.parse_cpus("0-3,6\n") == (0, 1, 2, 3, 6)
