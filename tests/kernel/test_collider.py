"""The watchpoints, live: quiet counters anywhere; what is hot or races only in a virtual machine (GATEWARDEN_GUEST)."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.collider import target as places
from agent.collider.case import Case
from agent.collider.symbols import Symbols
from agent.commands._collider import Bench
from agent.errors import Unsupported
from agent.linux import kallsyms, perfevent
from agent.linux.watchpoint import Watchpoints
from agent.model import Data
from agent.narrow import rows
from agent.ports import WatchSpot
from tests.kernel.target import ATOMIC, BALANCE, FLAGS, HOT, PLAIN, SPARE, Target

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(platform.machine() != "x86_64", reason="watchpoints with a program on them work on x86-64 only"),
]
guest = pytest.mark.skipif("GATEWARDEN_GUEST" not in os.environ, reason="hot watchpoints only in a virtual machine")
# An emulated CPU that runs a fast loop writes as often as a real one that sleeps.
SECONDS, GAP_S = (4.0, 0.002) if "GATEWARDEN_GUEST" in os.environ else (0.8, 0.02)
# Two writers meet in bursts, whose mean on both CPUs stays below what is too hot: 10,000 writes a second.
BURST, BURST_GAP_S, RACE_S = 50, 0.01, 15.0
KILLED = """
import sys, time
from agent.linux import perfevent
from agent.linux.watchpoint import Watchpoints
from agent.ports import WatchSpot
with Watchpoints()._armed([WatchSpot(int(sys.argv[1], 16), 8)] * 4, perfevent.online_cpus(), 1000):
    print("armed", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """Give words to write to."""
    made = Target(tmp_path_factory.mktemp("target"))
    yield made
    made.close()


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give loaded watchpoints."""
    watch = Watchpoints()
    with kallsyms.PATH.open() as lines:
        symbols = Symbols(lines)
    yield Bench(watch, symbols)
    watch.close()


def prove(bench: Bench, place: str, seconds: float) -> Data:
    """Watch a place and give the report."""
    return bench.report(watched(bench, place, seconds))


def watched(bench: Bench, place: str, seconds: float) -> Case:
    """Watch a place and give the case. Programs come and go, so symbols are read anew."""
    with kallsyms.PATH.open() as lines:
        bench.symbols = Symbols(lines)
    case = bench.case(places.place(places.parse(place), bench.symbols, bench.pointer))
    began = time.monotonic()
    bench.inquiry.run([case], seconds)
    print(f"watched for {time.monotonic() - began:.2f} s")
    return case


def test_every_write_is_trapped_and_named(words: Target, bench: Bench) -> None:
    """Pins that a quiet counter's growth is its trapped writes, from both CPUs, and that the writer is decoded and named."""
    with words.writing(("plain", 1, 0), ("plain", 1, (os.cpu_count() or 1) - 1), gap_s=GAP_S, in_turn=True):
        report = prove(bench, words.place(PLAIN), SECONDS)
    assert report["verdict"] == "none seen", report["reason"]
    assert report["writes"] == report["growth"]
    writer = rows(report, "writers")[0]
    assert "_plain+0x" in str(writer["symbol"])
    assert str(writer["instruction"]).startswith("mov qword ptr [")
    assert writer["atomic"] is False
    assert "bpf_prog_test_run_raw_tp" in str(writer["stack"])


def test_an_atomic_writer_is_acquitted(words: Target, bench: Bench) -> None:
    """Pins that a LOCK prefix on every writer acquits."""
    with words.writing(("atomic", 1, 0), gap_s=GAP_S):
        report = prove(bench, words.place(ATOMIC), SECONDS)
    assert (report["verdict"], report["reason"]) == ("none seen", "every writer is atomic (LOCK or xchg)"), report["writers"]


def test_up_and_down_is_inconclusive(words: Target, bench: Bench) -> None:
    """Pins that growth proves nothing where a counter goes both ways, and that both writers are listed."""
    with words.writing(("up", 1, 0), ("down", 1, 0), gap_s=GAP_S):
        report = prove(bench, words.place(BALANCE), SECONDS)
    assert report["verdict"] == "inconclusive"
    assert "counted up and down" in str(report["reason"])
    assert len(rows(report, "writers")) == 2


def test_nobody_writes(words: Target, bench: Bench) -> None:
    """Pins the verdict on a word that nobody writes to."""
    report = prove(bench, words.place(SPARE), 0.2)
    assert (report["verdict"], report["writes"], report["writers"]) == ("none seen", 0, [])


def test_the_kernel_disarms_after_the_limit(words: Target, bench: Bench) -> None:
    """Pins the hard budget of a window: each CPU traps as often as it may and no more, whatever is written after that."""
    case = bench.case(places.place(places.parse(words.place(HOT)), bench.symbols, bench.pointer))
    limit = 20
    with bench.watch._armed([case.spot], perfevent.online_cpus(), limit) as fds:
        before = words.value(HOT)
        words.run("hot", 63, 0)
        assert words.value(HOT) - before == 63
        counts = [perfevent.count(fd) for fd in fds]
    assert counts[0] is not None
    assert limit <= counts[0] <= 63  # it is off once the interrupt is served that the last trap asked for
    with bench.watch._armed([case.spot], perfevent.online_cpus(), limit) as fds:
        for _ in range(200):
            words.run("hot", 1, 0)
        assert perfevent.count(fds[0]) == limit


def test_no_debug_register_is_left(words: Target, bench: Bench) -> None:
    """Pins the words for a machine whose four debug registers are taken, and that they are free again afterwards."""
    spot = places.place(places.parse(words.place(SPARE)), bench.symbols, bench.pointer).spot
    with (
        bench.watch._armed([spot] * 4, perfevent.online_cpus(), 10),
        pytest.raises(Unsupported, match="no debug register is free"),
    ):
        bench.watch.window([spot], 0.01, 10)
    assert bench.watch.window([spot] * 4, 0.01, 10).seen == (0, 0, 0, 0)


def test_a_killed_measurement_leaves_nothing_armed(words: Target, bench: Bench) -> None:
    """Pins that the watchpoints go with their process: killed in mid-window, its debug registers are free at once."""
    address = words.place(SPARE).split(":")[0]
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, address], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"armed\n"
        spot = WatchSpot(int(address, 16), 8)
        assert _taken(bench, spot)
        child.kill()
    assert not _taken(bench, spot)


def _taken(bench: Bench, spot: WatchSpot) -> bool:
    try:
        bench.watch.window([spot], 0.005, 10)
    except Unsupported:
        return True
    return False


def test_reads_of_kernel_memory_end_where_it_ends(bench: Bench) -> None:
    """Pins that text can be read in pieces, and that an address without memory gives nothing instead of a fault."""
    start = next(symbol for symbol in bench.symbols._rows if symbol.name == "schedule_timeout")
    assert len(bench.watch.peek(start.address, 600)) == 600
    assert bench.watch.peek(0x1000, 8) == b""


@guest
def test_a_lost_update_is_proved(words: Target, bench: Bench) -> None:
    """Pins the proof itself: a plain read-modify-write on two CPUs is a race, by no more than was really lost."""
    before = words.value(PLAIN)
    with words.writing(("plain", BURST, 0), ("plain", BURST, 1), gap_s=BURST_GAP_S) as written:
        report = prove(bench, words.place(PLAIN), RACE_S)
    lost = sum(written.values()) - (words.value(PLAIN) - before)
    print(json.dumps({key: report[key] for key in ("verdict", "lost_updates", "writes", "reason")}), "really:", lost)
    assert int(str(report["lost_updates"])) <= max(lost, 0)
    assert report["verdict"] == "race"


@guest
def test_an_atomic_twin_has_no_deficit(words: Target, bench: Bench) -> None:
    """Pins that no deficit is computed for an atomic counter, however hard two CPUs write to it."""
    with words.writing(("atomic", BURST, 0), ("atomic", BURST, 1), gap_s=BURST_GAP_S):
        case = watched(bench, words.place(ATOMIC), 5)
    assert case.writes > 100
    assert case.balance().lost == 0


@guest
def test_an_undone_bit_is_proved(words: Target, bench: Bench) -> None:
    """Pins the proof for flag words: a bit that its owner had set is undone by a writer of another bit."""
    with words.writing(("owner", BURST // 4, 0), ("other", BURST // 2, 1), gap_s=BURST_GAP_S):
        report = prove(bench, words.place(FLAGS), RACE_S)
    print(json.dumps({key: report[key] for key in ("verdict", "lost_updates", "writes", "reason")}))
    assert report["verdict"] == "race"
    assert "undone" in str(report["reason"])


@guest
def test_too_hot_is_stopped(words: Target, bench: Bench) -> None:
    """Pins the end for a word that is written as fast as a CPU can: too hot, within the budget, and the machine goes on."""
    with words.writing(("hot", 1023, 0), ("hot", 1023, 1)) as written:
        case = watched(bench, words.place(HOT), 60)
        before = sum(written.values())
        time.sleep(0.5)
        report = bench.report(case)
        print(json.dumps({key: report[key] for key in ("verdict", "writes", "reason")}))
        assert sum(written.values()) > before
    assert report["verdict"] == "inconclusive"
    assert str(report["reason"]).startswith("too hot: ")
    assert sum(window.seconds for window in case.windows) < 5
