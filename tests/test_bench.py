"""The pure parts of the benches: verdicts, the table, readings of /proc texts, idle seconds, the choice of rows."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench import deadlines, idle, load, programs, races, readings, recovery, table, timeline
from tests.bench.__main__ import FAMILIES, selected
from tests.bench.plan import Plan
from tests.bench.programs import Spent
from tests.bench.readings import Mapping, Usage
from tests.bench.table import Row
from tests.bench.timeline import Slice

ROOT = Path(__file__).parent.parent
SMAPS = """55d0-55d1 r-xp 00000000 fe:00 17 {python}
Size:               8 kB
Rss:                8 kB
Pss:                4 kB
Shared_Clean:       8 kB
Private_Clean:      0 kB
Private_Dirty:      0 kB
VmFlags: rd ex mr
7f00-7f01 r--p 00000000 fe:00 18                   /lib/libc.so.6
Rss:               16 kB
Private_Clean:      4 kB
Private_Dirty:      0 kB
VmFlags: rd
7ffc-7ffd rw-p 00000000 00:00 0                          [stack]
Rss:               12 kB
Private_Clean:      0 kB
Private_Dirty:     12 kB
VmFlags: rd wr
"""


@pytest.mark.parametrize(
    ("measured", "must", "aim", "said"),
    [
        (0, 0, 0, "meets aim"),
        (28, 36, 28, "meets aim"),
        (28.1, 36, 28, "meets must"),
        (36, 36, None, "meets must"),
        (36.1, 36, 28, "MISSES"),
        (5, None, None, "-"),
        (None, 36, 28, "not measured: no broker"),
    ],
)
def test_verdicts(measured: float | None, must: float | None, aim: float | None, said: str) -> None:
    """Pins that a bound itself still meets, and that a row without a figure says why instead of passing."""
    assert table.verdict(Row("x", "", "", measured, must, aim, "no broker")) == said


def test_the_table_is_aligned_and_keeps_the_notes() -> None:
    """Pins that every verdict begins in the same column, notes stand below their row, reasons inside it."""
    rows = [Row("a.long.name", "what", "MiB", 12.345, 36, 28, "how"), Row("b", "other", "", None, note="why")]
    header, first, note, second = table.lines(rows)
    at = header.index("VERDICT")
    assert first[at:] == "meets aim"
    assert second[at:] == "not measured: why"
    assert note == "    how"
    assert "12.35 MiB" in first or "12.34 MiB" in first


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.floats(0.01, 1))
def test_quantiles_are_values_that_occurred(values: list[float], q: float) -> None:
    """Pins the definition: the smallest value that at least a share q does not exceed."""
    found = table.quantile(values, q)
    assert found in values
    assert sum(value <= found for value in values) >= q * len(values) - 1e-9
    assert sum(value < found for value in values) < q * len(values) + 1e-9


def test_private_memory_as_if_alone() -> None:
    """Pins that pages of files which only other Python processes share are counted, those that the system shares are not."""
    found = readings.parse_smaps(SMAPS.format(python="/usr/bin/python3.11"))
    assert found == [Mapping("/usr/bin/python3.11", 8, 0), Mapping("/lib/libc.so.6", 16, 4), Mapping("", 12, 12)]
    assert readings.uss_kib(found) == 16
    assert readings.uss_kib(found, {"/lib/libc.so.6"}, alone=True) == 8 + 4 + 12
    assert readings.uss_kib(found, alone=True) == 8 + 16 + 12


def test_readings_of_this_process() -> None:
    """Pins that the parsers fit the running kernel: one's own memory, files, CPU time and switches are there."""
    pid = int(Path("/proc/self").readlink().name)
    assert 1000 < readings.memory(pid).uss_kib <= readings.memory(pid).alone_kib <= readings.rss_kib(pid)
    assert any("python" in name for name in readings.parse_files(Path("/proc/self/maps").read_text()))
    usage = readings.usage(pid)
    assert usage.cpu_ns > 0
    assert usage.wakeups > 0


def test_a_program_s_fdinfo() -> None:
    """Pins which descriptors are programs, and what they spent."""
    text = "pos:\t0\nprog_type:\t26\nprog_id:\t7\nrun_time_ns:\t900\nrun_cnt:\t9\n"
    assert programs.parse_spent(text) == (7, Spent(900, 9))
    assert programs.parse_spent("pos:\t0\nmap_id:\t7\n") is None
    assert (Spent(900, 9) - Spent(300, 3)).each == 100
    assert Spent().each is None
    key = ("run_queue", "sched_switch")
    assert programs.grown({}, {key: Spent(5, 1)}) == {key: Spent(5, 1)}


def _slices(count: int) -> list[Slice]:
    moments = [Usage(at * 10_000_000, at, 0, at * 4096) for at in range(count + 1)]
    return [timeline.between(at, old, at + 1, new) for at, (old, new) in enumerate(pairwise(moments))]


def test_idle_seconds_lie_apart_from_events() -> None:
    """Pins that a second counts as idle only if nothing happened in it or so shortly before that its writes fall into it."""
    slices = _slices(10)
    assert timeline.idle(slices, []) == slices
    assert [int(part.begun) for part in timeline.idle(slices, [4.4])] == [0, 1, 2, 3, 7, 8, 9]
    assert timeline.idle(slices, [at + 0.5 for at in range(10)]) == []


def test_the_whole_of_slices_is_their_rate() -> None:
    """Pins units: 10 ms in each second are 1 %, 4 KiB in each are 354 MB a day; nothing has no rate."""
    found = timeline.whole(_slices(10))
    assert found is not None
    assert (found.cpu_pct, found.wakeups, found.seconds) == (1, 10, 10)
    assert idle.per_day(found) == pytest.approx(353.9, abs=0.1)
    assert timeline.whole([]) is None


def test_the_file_system_of_a_folder() -> None:
    """Pins that the innermost mount counts: flash writes are measured on a disk, or not at all."""
    mounts = "/dev/vda / ext4 rw 0 0\ntmpfs /var/tmp tmpfs rw 0 0\n"
    assert idle.kind_of(mounts, Path("/var/tmp/x")) == "tmpfs"
    assert idle.kind_of(mounts, Path("/var/tmpfiles")) == "ext4"


def test_rows_are_unique_and_chosen_by_glob() -> None:
    """Pins that a row names one family, `--rows` takes globs, and no family is asked in vain."""
    names = [name for family in FAMILIES for name in family.ROWS]
    assert len(names) == len(set(names))
    assert [list(found) for _family, found in selected("flash.no*")] == [["flash.no_broker"]]
    assert sum(len(found) for _family, found in selected("*")) == len(names)
    assert selected("nosuch") == []


@pytest.mark.parametrize(("quick", "limit_s"), [(True, 300), (False, 840)])
def test_a_run_fits_its_time(quick: bool, limit_s: int) -> None:  # noqa: FBT001 - pytest hands it over
    """Pins what the families say that they take, without what is watched for long or in real time: 5 minutes, or 14."""
    long = {races.TITLE, deadlines.TITLE, recovery.TITLE}
    assert sum(family.seconds(Plan(quick)) for family in FAMILIES if family.TITLE not in long) < limit_s


@pytest.mark.parametrize("kind", load.KINDS)
def test_the_load_ends_by_itself(kind: str) -> None:
    """Pins that each kind makes rounds and leaves nobody behind: its pipe of results reaches its end."""
    command = [sys.executable, "-I", "-S", str(ROOT / "tests/bench/load.py"), kind, "0.3", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    assert int(done.stdout) > 10


def test_the_command_names_its_rows_and_refuses_unknown_ones() -> None:
    """Pins --list, and exit code 2 for a glob without rows."""
    command = [sys.executable, "-m", "tests.bench"]
    listed = subprocess.run([*command, "--list", "--rows", "outbox.*"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert listed.stdout.split() == ["outbox.lost", "outbox.duplicated"]
    assert subprocess.run([*command, "--rows", "nosuch"], cwd=ROOT, capture_output=True, check=False).returncode == 2


def test_json_carries_the_verdict() -> None:
    """Pins the shape of a row for machines."""
    found = json.loads(json.dumps(table.plain(Row("a", "b", "ns", 130.0, 200, 120))))
    assert found["verdict"] == "meets must"
    assert set(found) == {"name", "what", "unit", "measured", "must", "aim", "note", "verdict"}
