"""Ring buffers: parsing what the kernel writes, on a model of its writer. The live side is in tests/kernel/test_counting.py."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from agent.linux.ring import BUSY, DISCARD, HEADER, Batch, parse

SIZE = 4096
STARTS = st.integers(0, 1 << 40).map(lambda n: n * HEADER)
RECORDS = st.lists(st.tuples(st.binary(max_size=200), st.sampled_from([0, 0, 0, DISCARD])), max_size=30)


@dataclass
class Model:
    """A ring of SIZE bytes as `bpf_ringbuf_reserve` and `_commit` fill it, from logical position `start` on."""

    start: int
    data: bytearray = field(default_factory=lambda: bytearray(SIZE))
    produced: int = -1

    def __post_init__(self) -> None:
        """Begin empty."""
        self.produced = self.start

    def put(self, record: bytes, flags: int = 0, length: int | None = None) -> bool:
        """Write a record and its header, with another length than its own if told; False if there is no room."""
        whole = (len(record) + HEADER + 7) // 8 * 8
        if self.produced + whole - self.start > SIZE:
            return False
        block = struct.pack("=II", (len(record) if length is None else length) | flags, 0) + record
        for offset, byte in enumerate(block.ljust(whole, b"\xee")):
            self.data[(self.produced + offset) % SIZE] = byte
        self.produced += whole
        return True

    def parse(self, limit: int = 256, position: int | None = None, produced: int | None = None) -> Batch:
        """Read it as the kernel maps it, twice in a row."""
        position = self.start if position is None else position
        twice = memoryview(bytes(self.data) * 2)
        return parse(twice, position, self.produced if produced is None else produced, limit, lambda: None)


@given(STARTS, RECORDS)
def test_records_come_out_as_they_went_in(start: int, records: list[tuple[bytes, int]]) -> None:
    """Wherever the ring wraps, each committed record comes out whole and in order, and no discarded one does."""
    ring = Model(start)
    kept = [record for record, flags in records if ring.put(record, flags) and not flags]
    batch = ring.parse()
    assert [record for _, record in batch.records] == kept
    assert (batch.position, batch.torn) == (ring.produced, False)


@given(STARTS, RECORDS, st.integers(1, 5))
def test_batches_go_on_where_the_last_one_ended(start: int, records: list[tuple[bytes, int]], limit: int) -> None:
    """Read a few at a time, every record comes exactly once, and the position after it is where the next batch begins."""
    ring = Model(start)
    kept = [record for record, flags in records if ring.put(record, flags) and not flags]
    found: list[bytes] = []
    position = start
    while (batch := ring.parse(limit, position)).records:
        assert len(batch.records) <= limit
        assert batch.position >= batch.records[-1][0] > position
        found += [record for _, record in batch.records]
        position = batch.records[-1][0]
    assert found == kept


@given(
    STARTS,
    st.lists(st.binary(max_size=100), max_size=8),
    st.binary(max_size=100),
    st.lists(st.binary(max_size=100), max_size=8),
)
def test_a_record_that_is_being_written_ends_the_batch(
    start: int, before: list[bytes], busy: bytes, after: list[bytes]
) -> None:
    """What lies behind it comes once it is committed, in its order: nothing overtakes."""
    ring = Model(start)
    for record in before:
        ring.put(record)
    at = ring.produced
    ring.put(busy, BUSY)
    for record in after:
        ring.put(record)
    batch = ring.parse()
    assert [record for _, record in batch.records] == before
    assert (batch.position, batch.torn) == (at, False)


@given(STARTS, st.lists(st.binary(max_size=100), max_size=8), st.integers(0, DISCARD - 1))
def test_a_length_that_cannot_be_skips_the_rest_and_says_so(start: int, before: list[bytes], length: int) -> None:
    """A header whose record would reach beyond what was written is not followed; the good records before it are kept."""
    ring = Model(start)
    for record in before:
        ring.put(record)
    ring.put(b"12345678", length=length)
    batch = ring.parse()
    if (length + HEADER + 7) // 8 * 8 > 16:
        assert [record for _, record in batch.records] == before
        assert batch.torn
    assert batch.position == ring.produced or not batch.torn


@given(st.binary(min_size=64, max_size=64), st.integers(0, 1 << 64), st.integers(0, 1 << 64))
def test_any_bytes_and_positions_end(data: bytes, position: int, produced: int) -> None:
    """Whatever stands in the ring and in its two positions: no error, no record from outside, no step back from produced."""
    batch = parse(memoryview(data * 2), position, produced, 256, lambda: None)
    assert sum(len(record) + HEADER for _, record in batch.records) <= 64
    assert all(record in data * 2 for _, record in batch.records)
    assert position <= batch.position <= produced or batch.position == produced


@given(STARTS, st.integers(1, 7), st.binary(min_size=20, max_size=20))
def test_a_position_inside_a_record_is_not_believed(start: int, off: int, record: bytes) -> None:
    """Headers lie at multiples of eight: from another position everything is skipped, and it goes on after it."""
    ring = Model(start)
    ring.put(record)
    batch = ring.parse(position=start + off)
    assert (batch.records, batch.position, batch.torn) == ([], ring.produced, True)


def test_each_header_is_fenced_from_its_data() -> None:
    """The order of loads that aarch64 needs is asked for once for each record that is taken."""
    ring = Model(0)
    for _ in range(3):
        ring.put(b"x" * 10)
    ring.put(b"x", BUSY)
    fences: list[int] = []
    parse(memoryview(bytes(ring.data) * 2), 0, ring.produced, 256, lambda: fences.append(1))
    assert len(fences) == 3
