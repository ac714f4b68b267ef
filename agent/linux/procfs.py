"""What /proc says, in two steps: `read_…(root)` gets text, `parse_…(text)` reads it. What is absent is None, never 0.

Formats: proc(5), Documentation/accounting/psi.rst, Documentation/scheduler/sched-stats.rst. Parsers skip lines that they
do not know (kernels add some) and never raise.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from agent.model import Data

ROOT = Path("/")
LIMIT = 1 << 20  # /proc/interrupts of a 256-CPU machine is below; /proc/sys refuses reads of 4 MiB and more (ENOMEM)
KIB = 1024
RESOURCES = ("cpu", "memory", "io", "irq")
_PER_CPU_SCHEDSTAT = 9  # fields after the CPU's name; versions 15 to 17 begin alike


def read(path: Path) -> str | None:
    """Give the text of a /proc file, None if it is absent, not ours to read, or not supported (PSI that is off)."""
    try:
        with path.open("rb") as file:
            return file.read(LIMIT).decode("utf-8", "backslashreplace")
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class Stall:
    """Share of time stalled in percent over 10, 60 and 300 s, and in µs since boot."""

    avg10: float
    avg60: float
    avg300: float
    total_us: int


@dataclass(frozen=True, slots=True)
class Pressure:
    """PSI of one resource: `some` task waited, or the `full` set of them did; None where the kernel does not say."""

    some: Stall | None
    full: Stall | None


def parse_pressure(text: str) -> Pressure:
    """Read one /proc/pressure file."""
    stalls: dict[str, Stall] = {}
    for line in text.splitlines():
        name, *pairs = line.split()[:8] or [""]
        values = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        avg10, avg60, avg300 = (_decimal(values.get(key, "")) for key in ("avg10", "avg60", "avg300"))
        total = _number(values.get("total", ""))
        if avg10 is not None and avg60 is not None and avg300 is not None and total is not None:
            stalls[name] = Stall(avg10, avg60, avg300, total)
    return Pressure(stalls.get("some"), stalls.get("full"))


def read_pressure(root: Path = ROOT) -> dict[str, Pressure | None]:
    """Give PSI by resource (`irq` since 6.1 with IRQ time accounting)."""
    texts = {name: read(root / "proc/pressure" / name) for name in RESOURCES}
    return {name: None if text is None else parse_pressure(text) for name, text in texts.items()}


def pressure_data(root: Path = ROOT) -> Data:
    """Give the same as plain JSON; a resource that the kernel does not report is null."""
    return {name: None if one is None else asdict(one) for name, one in read_pressure(root).items()}


def parse_meminfo(text: str) -> dict[str, int]:
    """Read /proc/meminfo: bytes by name (the kernel's "kB" are KiB); counts of pages (HugePages_…) as they are."""
    found = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        value, *unit = rest.split()[:2] or [""]
        number = _number(value)
        if number is not None:
            found[name] = number * KIB if unit == ["kB"] else number
    return found


def read_meminfo(root: Path = ROOT) -> dict[str, int] | None:
    """Give the kernel's account of memory in bytes."""
    text = read(root / "proc/meminfo")
    return None if text is None else parse_meminfo(text)


@dataclass(frozen=True, slots=True)
class SchedTimes:
    """Time on a CPU and time runnable but waiting, in ns, and how many times it ran."""

    running_ns: int
    waiting_ns: int
    slices: int


def parse_schedstat(text: str) -> dict[int, SchedTimes]:
    """Read /proc/schedstat (versions 15 to 17): the three last fields of each `cpuN` line."""
    found = {}
    for line in text.splitlines():
        name, *fields = line.split() or [""]
        cpu = _number(name.removeprefix("cpu")) if name.startswith("cpu") else None
        numbers = [_number(field) for field in fields]
        if cpu is not None and len(numbers) == _PER_CPU_SCHEDSTAT and None not in numbers:
            found[cpu] = SchedTimes(*(n or 0 for n in numbers[-3:]))
    return found


def read_schedstat(root: Path = ROOT) -> dict[int, SchedTimes] | None:
    """Give the times by CPU; None without CONFIG_SCHEDSTATS."""
    text = read(root / "proc/schedstat")
    return None if text is None else parse_schedstat(text)


@dataclass(frozen=True, slots=True)
class Counts:
    """One line of /proc/interrupts or /proc/softirqs: a count for each column's CPU, and what the kernel says of it."""

    by_cpu: Mapping[int, int]
    description: str = ""


def parse_counts(text: str) -> dict[str, Counts]:
    """Read /proc/interrupts or /proc/softirqs; offline CPUs have no column.

    Lines with one figure for all CPUs (ERR) are left out.
    """
    lines = text.splitlines()
    names = lines[0].split() if lines else []
    cpus = [_number(name.removeprefix("CPU")) for name in names]
    found = {}
    for line in lines[1:]:
        name, colon, rest = line.partition(":")
        fields = rest.split(None, len(cpus))
        numbers = [_number(field) for field in fields[: len(cpus)]]
        if colon and len(numbers) == len(cpus) and None not in numbers:
            by_cpu = {cpu: n for cpu, n in zip(cpus, numbers, strict=True) if cpu is not None and n is not None}
            found[name.strip()] = Counts(by_cpu, " ".join(fields[len(cpus)].split()) if len(fields) > len(cpus) else "")
    return found


def read_interrupts(root: Path = ROOT) -> dict[str, Counts] | None:
    """Give interrupts since boot by line."""
    text = read(root / "proc/interrupts")
    return None if text is None else parse_counts(text)


def read_softirqs(root: Path = ROOT) -> dict[str, Counts] | None:
    """Give softirqs since boot by vector."""
    text = read(root / "proc/softirqs")
    return None if text is None else parse_counts(text)


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What /proc/<pid> says of one process; None is unknown."""

    uss_kib: int | None
    rss_kib: int | None
    cpu_s: float | None
    capabilities: int | None
    voluntary_switches: int | None
    written_bytes: int | None


def parse_fields(text: str) -> dict[str, int]:
    """Read `Name: number [unit]` lines (status, smaps_rollup, io) as they are; other values are left out."""
    pairs = (line.partition(":") for line in text.splitlines())
    numbers = ((name, _number((rest.split() or [""])[0])) for name, _, rest in pairs)
    return {name: number for name, number in numbers if number is not None}


def parse_capabilities(text: str) -> int | None:
    """Give the effective set of a `status` file."""
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name == "CapEff":
            try:
                return int(value.strip(), 16)
            except ValueError:
                return None
    return None


def parse_cpu_s(text: str, ticks_per_s: int) -> float | None:
    """Give user and system time of a `stat` file in seconds. The command's name may hold blanks and parentheses."""
    fields = text.rpartition(")")[2].split()
    numbers = [_number(field) for field in fields[11:13]]
    return sum(n or 0 for n in numbers) / ticks_per_s if len(numbers) == 2 and None not in numbers else None


def read_process(pid: int | str = "self", root: Path = ROOT) -> ProcessFacts:
    """Give what can be known of one process; another user's is mostly unknown."""
    folder = root / "proc" / str(pid)
    status, stat = read(folder / "status") or "", read(folder / "stat") or ""
    rollup, io = parse_fields(read(folder / "smaps_rollup") or ""), parse_fields(read(folder / "io") or "")
    fields = parse_fields(status)
    private = [rollup.get(name) for name in ("Private_Clean", "Private_Dirty")]
    return ProcessFacts(
        uss_kib=None if None in private else sum(n or 0 for n in private) + rollup.get("Private_Hugetlb", 0),
        rss_kib=fields.get("VmRSS"),
        cpu_s=parse_cpu_s(stat, os.sysconf("SC_CLK_TCK")),
        capabilities=parse_capabilities(status),
        voluntary_switches=fields.get("voluntary_ctxt_switches"),
        written_bytes=io.get("write_bytes"),
    )


def read_task(pid: int, root: Path = ROOT) -> tuple[int, str] | None:
    """Give the process that a task belongs to, and the task's own name; None if it is gone."""
    lines = (read(root / f"proc/{pid}/status") or "").splitlines()
    fields = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    tgid = _number(fields.get("Tgid", ""))
    return None if tgid is None else (tgid, fields.get("Name", ""))


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 20 else None


def _decimal(text: str) -> float | None:
    whole, _, part = text.partition(".")
    return float(text) if _number(whole) is not None and (not part or _number(part) is not None) else None
