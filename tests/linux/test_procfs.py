"""The /proc readers: text of other kernels, a root without anything, rubbish, and this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.linux import procfs
from agent.linux.procfs import Counts, Pressure, SchedTimes, Stall

INTERRUPTS = """\
           CPU0       CPU2
  0:         32          0   IO-APIC    2-edge      timer
 24:          1          7   PCI-MSI 49152-edge      eth0-rx-0
NMI:          0          0   Non-maskable interrupts
ERR:          0
MIS:          5
"""
SOFTIRQS = """\
                    CPU0       CPU2
          HI:          0          1
       TIMER:       8092       8876
"""
SCHEDSTAT = """\
version 15
timestamp 4297299139
cpu0 0 0 0 0 0 0 1145287047860 56055931 1018
domain0 3 1 2 3
cpu1 0 0 0 0 0 0 20 30 40
cpu2 0 0 rubbish
"""
PARSERS: list[Callable[[str], object]] = [
    procfs.parse_pressure,
    procfs.parse_meminfo,
    procfs.parse_schedstat,
    procfs.parse_counts,
    procfs.parse_fields,
    procfs.parse_capabilities,
    lambda text: procfs.parse_cpu_s(text, 100),
]


def test_pressure() -> None:
    """Pins PSI lines; a resource without `full` (cpu before 5.13) has None there."""
    text = "some avg10=0.92 avg60=0.45 avg300=100.00 total=4437175\n"
    assert procfs.parse_pressure(text) == Pressure(Stall(0.92, 0.45, 100.0, 4437175), None)


def test_meminfo() -> None:
    """Pins that KiB become bytes and counts of pages stay."""
    text = "MemTotal:        8124960 kB\nHugePages_Total:       3\nBroken: x\n"
    assert procfs.parse_meminfo(text) == {"MemTotal": 8124960 * 1024, "HugePages_Total": 3}


def test_schedstat() -> None:
    """Pins the last three fields of each CPU's line; lines of another form are skipped."""
    assert procfs.parse_schedstat(SCHEDSTAT) == {0: SchedTimes(1145287047860, 56055931, 1018), 1: SchedTimes(20, 30, 40)}


def test_counts() -> None:
    """Pins that columns are CPUs by their names (offline ones missing), and what the description is."""
    assert procfs.parse_counts(INTERRUPTS) == {
        "0": Counts({0: 32, 2: 0}, "IO-APIC 2-edge timer"),
        "24": Counts({0: 1, 2: 7}, "PCI-MSI 49152-edge eth0-rx-0"),
        "NMI": Counts({0: 0, 2: 0}, "Non-maskable interrupts"),
    }
    assert procfs.parse_counts(SOFTIRQS)["TIMER"] == Counts({0: 8092, 2: 8876})


def test_a_command_with_blanks_and_parentheses() -> None:
    """Pins that the CPU time is found behind a name made to confuse: `12 (a) 1 2 (b) S …`."""
    tail = "S 1 1 1 0 -1 4194560 1 2 3 4 150 50 0 0"
    assert procfs.parse_cpu_s(f"12 (a) 1 2 (b) {tail}", 100) == 2.0


@given(text=st.text() | st.text("0123456789 :=.\nCPUcpu()kBavg", max_size=200))
def test_any_text_is_read(text: str) -> None:
    """Pins that no parser raises, whatever the kernel (or a container's lxcfs) writes."""
    for parse in PARSERS:
        parse(text)


def test_what_is_absent_is_unknown(tmp_path: Path) -> None:
    """Pins that a root without /proc gives None everywhere, never a zero."""
    assert procfs.read_pressure(tmp_path) == {"cpu": None, "memory": None, "io": None, "irq": None}
    assert procfs.read_meminfo(tmp_path) is None
    assert procfs.read_schedstat(tmp_path) is None
    assert procfs.read_interrupts(tmp_path) is None
    assert procfs.read_softirqs(tmp_path) is None
    facts = procfs.read_process("self", tmp_path)
    assert (facts.uss_kib, facts.rss_kib, facts.cpu_s, facts.capabilities) == (None, None, None, None)
    assert (facts.voluntary_switches, facts.written_bytes) == (None, None)


def test_a_fixture_root(tmp_path: Path) -> None:
    """Pins that every reader takes its root as a parameter and finds its file below it."""
    (tmp_path / "proc/pressure").mkdir(parents=True)
    (tmp_path / "proc/pressure/cpu").write_text("some avg10=1.00 avg60=0.00 avg300=0.00 total=5\n")
    (tmp_path / "proc/schedstat").write_text(SCHEDSTAT)
    (tmp_path / "proc/interrupts").write_text(INTERRUPTS)
    (tmp_path / "proc/softirqs").write_text(SOFTIRQS)
    assert procfs.read_pressure(tmp_path)["cpu"] == Pressure(Stall(1.0, 0.0, 0.0, 5), None)
    assert set(procfs.read_schedstat(tmp_path) or ()) == {0, 1}
    assert set(procfs.read_interrupts(tmp_path) or ()) == {"0", "24", "NMI"}
    assert set(procfs.read_softirqs(tmp_path) or ()) == {"HI", "TIMER"}


def test_this_machine() -> None:
    """Pins that the running kernel's files read as they should, each where it exists."""
    memory = procfs.read_meminfo()
    assert memory is not None
    assert memory["MemTotal"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    softirqs = procfs.read_softirqs()
    assert softirqs is not None
    assert sum(softirqs["TIMER"].by_cpu.values()) > 0
    for name, pressure in procfs.read_pressure().items():
        assert pressure is None or pressure.some or pressure.full, name


def test_this_process() -> None:
    """Pins the facts of a process that may see its own: memory below what it has resident, CPU time, capabilities."""
    facts = procfs.read_process()
    assert facts.uss_kib is not None
    assert facts.rss_kib is not None
    assert 1000 < facts.uss_kib <= facts.rss_kib
    assert facts.cpu_s == pytest.approx(sum(os.times()[:2]), abs=0.1)
    assert (facts.capabilities != 0) == (os.geteuid() == 0)
    assert facts.voluntary_switches is not None


def test_a_task_has_its_process_and_its_own_name(tmp_path: Path) -> None:
    """A thread is named as it named itself, under its process's id; one that is gone, or unreadable, is None."""
    (tmp_path / "proc/8").mkdir(parents=True)
    (tmp_path / "proc/8/status").write_text("Name:\ta b: c\nUmask:\t0022\nTgid:\t7\nPid:\t8\n")
    assert procfs.read_task(8, tmp_path) == (7, "a b: c")
    assert procfs.read_task(9, tmp_path) is None
    (tmp_path / "proc/8/status").write_text("Name:\tx\nTgid:\tnone\n")
    assert procfs.read_task(8, tmp_path) is None
    assert procfs.read_task(os.getpid()) == (os.getpid(), Path("/proc/self/comm").read_text().rstrip("\n"))
