"""Places to watch and the symbols behind them: what is taken, what is refused, and in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.collider import target
from agent.collider.symbols import Symbols
from agent.errors import BadRequest, NotPermitted
from agent.ports import WatchSpot

KALLSYMS = """\
0000000000000000 A __per_cpu_start
000000000001f000 A current_task
0000000000030000 A __per_cpu_end
ffffffff81000000 T _stext
ffffffff81001000 t schedule_timeout
ffffffff82000000 D jiffies_64
ffffffff82000008 d jiffies_lock
ffffffff8200000c d small
ffffffff82000010 D frames
ffffffffc0000000 t lost_tick	[lost]
ffffffffc0001000 b frames	[lost]
ffffffffc0001008 b __key.0	[lost]
ffffffffc0001010 d table	[lost]
ffffffffc0002000 t other_tick	[other]
ffffffffc0002f00 b lonely	[other]
not a line
"""
SYMBOLS = Symbols(KALLSYMS.splitlines())


def placed(text: str, pointer: int | None = None) -> target.Watched:
    """Find a place; every pointer in memory is `pointer`."""
    return target.place(target.parse(text), SYMBOLS, lambda _address: pointer)


@pytest.mark.parametrize(
    ("text", "address", "length"),
    [
        ("jiffies_64", 0xFFFFFFFF82000000, 8),
        ("jiffies_64:4", 0xFFFFFFFF82000000, 4),
        ("jiffies_lock", 0xFFFFFFFF82000008, 4),  # as far as the next symbol
        ("small+2", 0xFFFFFFFF8200000E, 2),
        ("small+02", 0xFFFFFFFF8200000E, 2),
        ("lost:frames", 0xFFFFFFFFC0001000, 8),
        ("table+0x10:1", 0xFFFFFFFFC0001020, 1),
        ("0xffffffffc0001010:4", 0xFFFFFFFFC0001010, 4),
        ("*table+0x48:4", 0xFFFF888000000048, 4),
        ("*0xffffffffc0001010", 0xFFFF888000000000, 8),
    ],
)
def test_places(text: str, address: int, length: int) -> None:
    """Pins each form of a place."""
    assert placed(text, 0xFFFF888000000000).spot == WatchSpot(address, length)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("jiffes_64", "no kernel symbol 'jiffes_64', did you mean jiffies_64"),
        ("zzz", "no kernel symbol 'zzz'"),
        ("frames", "2 symbols are called frames: 0xffffffff82000010, lost:frames"),
        ("schedule_timeout", "is text .a function., not data"),
        ("current_task", "is per-CPU data"),
        ("0xffffffff81001004", "is text .schedule_timeout., want data"),
        ("0x7f0000001000", "is a user-space address"),
        ("jiffies_64:3", "is 1, 2, 4 or 8 bytes long, not 3"),
        ("jiffies_64:16", "is 1, 2, 4 or 8 bytes long, not 16"),
        ("jiffies_64+2:4", "is not a multiple of its length 4; allowed: :1, :2"),
        ("*jiffies_64", "holds 0x10, which is no pointer to kernel data"),
        ("", "is no place to watch"),
        ("a b", "is no place to watch"),
        ("jiffies_64:", "is no place to watch"),
        ("-1", "is no place to watch"),
    ],
)
def test_refused(text: str, words: str) -> None:
    """Pins the words for each place that cannot be watched."""
    with pytest.raises(BadRequest, match=words):
        placed(text, 0x10)


@given(st.text(alphabet="*+:x0123456789abcdefjiffies_64 []\0é", max_size=30))
def test_any_text(text: str) -> None:
    """Pins that any text is a place or one error of ours."""
    try:
        spot = placed(text, 0xFFFF888000000000).spot
    except BadRequest:
        return
    assert spot.address % spot.length == 0


@given(st.text(max_size=60))
def test_any_symbols(line: str) -> None:
    """Pins that any line of kallsyms is read or left out, and costs the next one nothing."""
    assert Symbols([line, "ffffffff81000000 T _stext"]).label(0xFFFFFFFF81000000) == "_stext"


def test_hidden_addresses() -> None:
    """Pins the error where the kernel shows zeros only."""
    with pytest.raises(NotPermitted, match="kernel addresses are hidden"):
        Symbols(["0000000000000000 T _stext"])


def test_names_of_addresses() -> None:
    """Pins labels with offset and module, and that a gap has no name."""
    assert SYMBOLS.label(0xFFFFFFFFC0000010) == "lost_tick+0x10 [lost]"
    assert SYMBOLS.label(0xFFFFFFFF82000000) == "jiffies_64"
    assert SYMBOLS.label(0x10) == "0x10"
    assert SYMBOLS.label(0xFFFFFFFFF0000000) == "0xfffffffff0000000"


def test_functions() -> None:
    """Pins the search for a callback: by name, by module and name; what is unknown or data says so, with the nearest names."""
    assert SYMBOLS.function("lost_tick").address == 0xFFFFFFFFC0000000
    assert SYMBOLS.function("lost:lost_tick").module == "lost"
    for name, said in (
        ("lost_tock", "no kernel function 'lost_tock', did you mean lost_tick?"),
        ("other:lost_tick", "no kernel function 'other:lost_tick', did you mean lost_tick?"),
        ("jiffies_64", "jiffies_64 is no function"),
    ):
        with pytest.raises(BadRequest) as error:
            SYMBOLS.function(name)
        assert said in str(error.value)


def test_a_kernel_that_names_no_variables() -> None:
    """Pins the words for a kernel without CONFIG_KALLSYMS_ALL, where no name of a variable could be right."""
    bare = Symbols(["ffffffff81001000 t schedule_timeout", "ffffffff82000000 D __start_rodata"])
    with pytest.raises(BadRequest, match="CONFIG_KALLSYMS_ALL is off"):
        bare.find("jiffies_64")
