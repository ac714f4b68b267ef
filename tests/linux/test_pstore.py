"""Dumps of the kernel's log as pstore keeps them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.linux import pstore
from agent.linux.pstore import Record

PANIC = b"""Panic#1 Part1
<4>[   31.512345] RIP: 0010:sysrq_handle_crash+0x1a/0x20
<0>[   31.523456] Kernel panic - not syncing: sysrq triggered crash
<0>[   31.534567] ---[ end Kernel panic
"""
OOPS = b"Oops#1 Part1\n<4>[    9.000000] Oops: 0002 [#1] SMP\n"


def test_a_panic_and_its_own_words() -> None:
    """Pins the header and the words; an Oops that did not panic reset nothing."""
    record = pstore.parse(PANIC)
    assert record is not None
    assert (record.reason, record.panic) == ("Panic", "Kernel panic - not syncing: sysrq triggered crash")
    oops = pstore.parse(OOPS)
    assert oops is not None
    assert pstore.panic([oops]) == ""
    assert pstore.panic([oops, record]) == record.panic


def test_a_panic_in_parts() -> None:
    """Pins that the part with the words counts, and that a panic without any is still one."""
    first = pstore.parse(PANIC.replace(b"Kernel panic - not syncing", b"more"))
    assert first is not None
    assert pstore.panic([first]) == "Kernel panic (its own words were not kept)"


def test_places_and_keys(tmp_path: Path) -> None:
    """Pins that a dump has the same key in pstore and in systemd's archive, and that other files are no dumps."""
    here, archive = tmp_path / "sys/fs/pstore", tmp_path / "var/lib/systemd/pstore/1234567890"
    for folder in (here, archive):
        folder.mkdir(parents=True)
    (here / "dmesg-erst-7624").write_bytes(PANIC)
    (here / "console-ramoops-0").write_bytes(PANIC)
    (archive / "dmesg-erst-7624").write_bytes(PANIC)
    (archive / "dmesg.txt").write_bytes(b"rubbish")
    assert len(found := pstore.read(tmp_path)) == 2
    assert len({record.key for record in found}) == 1
    assert pstore.read(tmp_path / "nowhere") == []


@pytest.mark.root
def test_a_closed_pstore_is_an_error_not_nothing(tmp_path: Path) -> None:
    """Pins that what an ordinary user may not read is not taken for "no panic"."""
    (tmp_path / "sys/fs/pstore").mkdir(parents=True, mode=0o700)
    for folder in (tmp_path, *tmp_path.parents):
        if folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    child = os.fork()
    if child == 0:
        os.setuid(65534)
        try:
            pstore.read(tmp_path)
        except PermissionError:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@given(st.binary(max_size=200) | st.binary(max_size=200).map(lambda tail: b"Panic#1 Part1\n" + tail))
def test_any_bytes(raw: bytes) -> None:
    """Pins the decoder: a record or none, its words bounded."""
    record = pstore.parse(raw)
    assert record is None or (isinstance(record, Record) and len(record.panic) < 1500)


def test_whether_there_is_one(tmp_path: Path) -> None:
    """Pins mount and backend."""
    assert pstore.mounted(tmp_path) is None
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mounts").write_text("pstore /sys/fs/pstore pstore rw,nosuid 0 0\n")
    assert pstore.mounted(tmp_path)
    assert pstore.backend(tmp_path) == ""
    folder = tmp_path / "sys/module/pstore/parameters"
    folder.mkdir(parents=True)
    (folder / "backend").write_text("(null)\n")
    assert pstore.backend(tmp_path) == ""
    (folder / "backend").write_text("erst\n")
    assert pstore.backend(tmp_path) == "erst"
