"""Addresses to names."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import GatewardenError
from agent.linux import kallsyms

TABLE = """\
ffffffff81000000 T _stext
ffffffff81000100 t tick_sched_timer
ffffffff81000180 T schedule
ffffffffc0400000 t nf_hook\t[nf_tables]
ffffffffc0200040 t gpu_isr\t[nvidia]
ffffffffc0200000 t gpu_poll\t[nvidia]
ffffffffc0300000 t bpf_prog_6deef7357e7b4530_timers\t[bpf]
""".splitlines(keepends=True)


def test_names_offsets_and_modules() -> None:
    """Pins exact hits without an offset, the nearest symbol below, the module's suffix, unsorted module symbols, order kept."""
    wanted = [0xFFFFFFFFC0200044, 0xFFFFFFFF81000100, 0xFFFFFFFF8100017F, 0xFFFFFFFFC0400000, 0xFFFFFFFF81000100]
    assert kallsyms.resolve(TABLE, wanted) == [
        "gpu_isr+0x4 [nvidia]",
        "tick_sched_timer",
        "tick_sched_timer+0x7f",
        "nf_hook [nf_tables]",
        "tick_sched_timer",
    ]


def test_what_is_no_kernel_code_has_no_name() -> None:
    """Pins that user addresses, addresses below the first symbol, and those far above any are None."""
    assert kallsyms.resolve(TABLE, [0x400000, 0xFFFFFFFF80FFFFFF, 0xFFFFFFFF90000000]) == [None, None, None]


def test_hidden_addresses_are_an_error() -> None:
    """Pins that a table of zeros (kptr_restrict) is said to be hidden, not resolved to the last symbol."""
    hidden = [line.replace(line.split()[0], "0" * 16) for line in TABLE]
    with pytest.raises(GatewardenError, match="kptr_restrict"):
        kallsyms.resolve(hidden, [0xFFFFFFFF81000100])
    with pytest.raises(GatewardenError, match="No such file"):
        kallsyms.read([1], Path("/nonexistent/kallsyms"))


@given(
    symbols=st.lists(st.integers(1, 1 << 20), min_size=1, unique=True),
    addresses=st.lists(st.integers(1, 1 << 21), max_size=20),
)
def test_agrees_with_the_plain_search(symbols: list[int], addresses: list[int]) -> None:
    """Pins the one-pass search against the obvious one, for any order of symbols and addresses."""
    lines = [f"{start:016x} t s{start}" for start in symbols]
    expected: list[str | None] = []
    for address in addresses:
        start = max((one for one in symbols if one <= address), default=None)
        near = start is not None and address - start < kallsyms.FAR
        expected.append((f"s{start}" if address == start else f"s{start}+{address - (start or 0):#x}") if near else None)
    assert kallsyms.resolve(lines, addresses) == expected


@given(lines=st.lists(st.text()), addresses=st.lists(st.integers(1, (1 << 64) - 1), max_size=5))
def test_rubbish_is_skipped(lines: list[str], addresses: list[int]) -> None:
    """Pins that lines of another form never raise; without one good line the addresses are said to be hidden."""
    assert len(kallsyms.resolve([*lines, TABLE[0]], addresses)) == len(addresses)


@pytest.mark.root
def test_this_kernel() -> None:
    """Pins the real table: 256 symbols found again within a second, in constant memory."""
    with kallsyms.PATH.open() as file:
        table = [line.split() for line in file]
    text = [fields for fields in table if fields[1] in "tT"][:: max(1, len(table) // 200)][:256]
    start = time.monotonic()
    names = kallsyms.read([int(fields[0], 16) + 1 for fields in text])
    assert time.monotonic() - start < 5
    assert all(name and "+0x1" in name for name in names)
