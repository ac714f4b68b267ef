"""The bit reader against a writer of its own, and at its ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.errors import BitstreamError
from agent.video.bits import LONGEST, Bits, unescaped
from tests.video.writing import Writer, escaped

VALUES = st.lists(
    st.one_of(
        st.integers(1, 64).flatmap(lambda count: st.tuples(st.just(count), st.integers(0, 2**count - 1))),
        st.tuples(st.just("ue"), st.integers(0, 2**32 - 2)),
        st.tuples(st.just("se"), st.integers(-(2**31) + 1, 2**31 - 1)),
    ),
    max_size=30,
)


@given(VALUES)
def test_what_is_written_is_read(values: list[tuple[int | str, int]]) -> None:
    """Pins every kind of number, in any order and at any offset."""
    writer = Writer()
    for kind, value in values:
        writer.ue(value) if kind == "ue" else writer.se(value) if kind == "se" else writer.u(int(kind), value)
    bits = Bits(writer.closed())
    for kind, value in values:
        assert bits.more()
        if kind == "ue":
            assert bits.ue("x", 2**32) == value
        elif kind == "se":
            assert bits.se("x", -(2**31), 2**31) == value
        else:
            assert bits.u(int(kind)) == value
    assert not bits.more()


@given(st.binary(max_size=60), st.integers(1, 70))
def test_the_end_is_an_error(data: bytes, count: int) -> None:
    """Pins that nothing is read beyond the end, nor made up there."""
    bits = Bits(data)
    bits.skip(len(data) * 8)
    for reading in (lambda: bits.u(count), lambda: bits.skip(count), lambda: bits.ue("x", 2**32), lambda: bits.se("x", -9, 9)):
        with pytest.raises(BitstreamError):
            reading()
    assert not bits.more()


def test_values_have_bounds() -> None:
    """Pins that a value out of range is told with its name and its range, and 33 zeros are no number."""
    with pytest.raises(BitstreamError, match=r"sps_id is 32, allowed: 0 \.\. 31"):
        Bits(Writer().ue(32).closed()).ue("sps_id", 31)
    with pytest.raises(BitstreamError, match=r"qp is -27, allowed: -26 \.\. 25"):
        Bits(Writer().se(-27).closed()).se("qp", -26, 25)
    with pytest.raises(BitstreamError, match="no Exp-Golomb code"):
        Bits(bytes(4) + b"\x40" + bytes(9)).ue("x", 2**40)


@given(st.lists(st.sampled_from([b"\0", b"\1", b"\3", b"\0\0", b"abc"]), max_size=40).map(b"".join))
def test_emulation_prevention(raw: bytes) -> None:
    """Pins that what a sender put in against start codes is taken out again."""
    assert unescaped(escaped(raw)) == raw


def test_a_parameter_set_has_a_limit() -> None:
    """Pins that a megabyte that calls itself an SPS is refused before it is looked at."""
    with pytest.raises(BitstreamError, match="16385 bytes, allowed: 16384"):
        unescaped(bytes(LONGEST + 1))
