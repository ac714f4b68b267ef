"""process_exit: decoding, the watch set, reports."""

from __future__ import annotations

import os
import signal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.probes import process_exit
from tests.probes.doubles import Tables, decode_or_refuse, refuses_short

PROBE = probes.load("process_exit")


@given(st.binary(max_size=2 * process_exit.EVENT.size))
def test_any_bytes_are_decoded_or_refused(record: bytes) -> None:
    """Any ring buffer record is a Sighting or a ValueError."""
    decode_or_refuse(PROBE, record)


def test_a_truncated_record_is_refused() -> None:
    """Each length below the struct's is a ValueError."""
    refuses_short(PROBE, process_exit.EVENT)


@given(st.integers(0, 0xFFFF), st.booleans())
def test_the_status_reads_as_wait_reads_it(status: int, oom: bool) -> None:  # noqa: FBT001 - drawn by hypothesis
    """Code, signal and core bit are those that the C library's macros find in the same status."""
    found = process_exit.sighting(memoryview(process_exit.EVENT.pack(code=status, oom=int(oom), comm="ffmpeg")))
    if os.WIFEXITED(status):
        assert (found.data["code"], found.data["signal"]) == (os.WEXITSTATUS(status), 0)
    elif os.WIFSIGNALED(status):
        assert (found.data["code"], found.data["signal"]) == (0, os.WTERMSIG(status))
        assert found.data["core"] == os.WCOREDUMP(status)
    assert found.data["oom"] == oom


@pytest.mark.parametrize(
    ("status", "oom", "severity"),
    [
        (0, 0, "info"),
        (3 << 8, 0, "warning"),
        (signal.SIGTERM, 0, "warning"),
        (signal.SIGSEGV | 0x80, 0, "error"),
        (9, 1, "critical"),
    ],
)
def test_severity_is_by_cause(status: int, oom: int, severity: str) -> None:
    """An OOM victim is worse than a core dump, that than a signal or an exit code, and a clean exit is news only."""
    record = process_exit.EVENT.pack(t_ns=4, pid=8, tgid=7, code=status, oom=oom, comm="ffmpeg")
    found = process_exit.sighting(memoryview(record))
    assert (found.t_mono_ns, found.kind, found.subject, found.severity) == (4, "proc.exit", "ffmpeg", severity)
    assert (found.data["pid"], found.data["tgid"], found.data["workload"]) == (8, 7, None)


def test_the_watch_set_is_as_the_kernel_keeps_names() -> None:
    """Names are cut to 15 bytes, NUL-padded to 16; what was watched before is not any more."""
    maps = Tables(hashes={"comms": {b"old".ljust(16, b"\0"): b"\1"}})
    process_exit.steer(process_exit.Options(comm=("sleep", "a-name-that-is-too-long")), maps)
    assert set(maps.hashes["comms"]) == {b"sleep".ljust(16, b"\0"), b"a-name-that-is-\0"}


def test_a_report_counts_all_exits() -> None:
    """The counts of all CPUs are added up, and the interval's are told."""
    rows = [process_exit.TOTAL.pack(exits=5, signalled=1, oom=0), process_exit.TOTAL.pack(exits=7, signalled=1, oom=1)]
    before = process_exit.snapshot(Tables(percpus={"total": [[rows[0], bytes(process_exit.TOTAL.size)]]}))
    after = process_exit.snapshot(Tables(percpus={"total": [rows]}))
    assert process_exit.report(before, after) == {"exits": 7, "signalled": 1, "oom": 1}
