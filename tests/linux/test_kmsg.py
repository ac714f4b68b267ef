"""Kernel log records, by example, by property, and from this machine's own log."""

from __future__ import annotations

import os
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.linux import kmsg
from agent.linux.kmsg import KmsgReader, KmsgRecord

RECORD = b"6,339,5140900,-;NET: Registered protocol family 10\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n"


def test_a_record_of_the_documentation() -> None:
    """Pins the format of Documentation/ABI/testing/dev-kmsg: prefix, text, tags; facility and priority apart."""
    tags = (("SUBSYSTEM", "acpi"), ("DEVICE", "+acpi:PNP0A03:00"))
    assert kmsg.parse(RECORD) == KmsgRecord(6, 0, 339, 5140900, "NET: Registered protocol family 10", tags)
    assert str(kmsg.parse(RECORD)) == "[    5.140900] info: NET: Registered protocol family 10"


def test_fields_that_kernels_add() -> None:
    """Pins that further prefix fields (the caller, since 5.1) are skipped, and that a semicolon in the text stays."""
    record = kmsg.parse(b"30,7,9,c,caller=T1,more;systemd[1]: a;b\n")
    assert record == KmsgRecord(6, 3, 7, 9, "systemd[1]: a;b")


@pytest.mark.parametrize("raw", [b"", b";", b"6,1,2", b"6,1;x", b"6,-1,2,-;x", b"6,1,x,-;t", b"6,1," + b"9" * 5000 + b",-;t"])
def test_what_is_no_record(raw: bytes) -> None:
    """Pins that a record without its three numbers is None."""
    assert kmsg.parse(raw) is None


@given(raw=st.binary() | st.builds(lambda head, rest: b"6,1,2,-;" + head + b"\n" + rest, st.binary(), st.binary()))
def test_any_bytes_are_read_or_none(raw: bytes) -> None:
    """Pins that nothing raises, and that a record's text is one line."""
    record = kmsg.parse(raw)
    assert record is None or "\n" not in record.text


@given(
    numbers=st.tuples(*[st.integers(0, 2**63)] * 3),
    text=st.text(st.characters(exclude_categories=["Cc", "Cs"])),
    value=st.text(st.characters(exclude_categories=["Cc", "Cs", "Z"])),
)
def test_good_records_come_back(numbers: tuple[int, int, int], text: str, value: str) -> None:
    """Pins that each field of a well-formed record is kept as it was."""
    syslog, seq, t_us = numbers
    record = kmsg.parse(f"{syslog},{seq},{t_us},-;{text}\n KEY={value}\n".encode())
    assert record == KmsgRecord(syslog & 7, syslog >> 3, seq, t_us, text, (("KEY", value),))


def reader_of(steps: list[bytes | type[OSError]]) -> KmsgReader:
    """Give a reader whose reads end as `steps` say, then with EAGAIN."""
    left = iter(steps)

    def read(_fd: int, size: int) -> bytes:
        step = next(left, BlockingIOError)
        if isinstance(step, bytes):
            return step[:size]
        raise step

    return KmsgReader(-1, read)


def test_overruns_and_rubbish_are_counted() -> None:
    """Pins that EPIPE (records overwritten before they were read) is counted and read past, as is a record that is none."""
    reader = reader_of([RECORD, BrokenPipeError, b"rubbish", RECORD, BrokenPipeError])
    assert [record.seq for record in kmsg.last(reader)] == [339, 339]
    assert (reader.overruns, reader.bad) == (2, 1)


def test_only_the_newest_are_kept() -> None:
    """Pins that `last` gives the newest records, oldest first."""
    reader = reader_of([b"6,%d,0,-;x" % seq for seq in range(10)])
    assert [record.seq for record in kmsg.last(reader, 3)] == [7, 8, 9]


def test_a_log_that_never_ends_is_left() -> None:
    """Pins that a log growing faster than it is read costs at most the limit."""
    reader = KmsgReader(-1, lambda _fd, _size: RECORD)
    start = time.monotonic()
    assert len(kmsg.last(reader, 200, limit_s=0.05)) == 200
    assert time.monotonic() - start < 1


@pytest.mark.kmsg
@pytest.mark.root
def test_this_machines_log() -> None:
    """Pins that the real /dev/kmsg reads to its end without a bad record, by sequence, and that the fd is given back."""
    fd = kmsg.open_kmsg()
    reader = KmsgReader(fd)
    records = kmsg.last(reader, 100_000, limit_s=5)
    assert records
    assert reader.bad == 0
    assert [record.seq for record in records] == sorted(record.seq for record in records)
    os.close(fd)
    fd = kmsg.open_kmsg()
    lines = kmsg.last_lines(fd)
    assert 0 < len(lines) <= 200
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)
