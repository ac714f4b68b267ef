"""What holds for every probe in the running kernel: both attach types count, a cleared flag stops it, losses are counted."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from pathlib import Path

import pytest

from agent import config, histogram, probes
from agent.layout import Layout
from agent.linux.bpf import possible_cpus
from tests.kernel import live
from tests.kernel.live import delayed

pytestmark = pytest.mark.kernel

ROOT = Path(__file__).parent.parent.parent
STALE_S = 0.5
# A virtual disk may complete without an interrupt, no wheel timer may be due on a quiet tickless machine, and few delete one.
MAY_BE_SILENT = {
    *("irq_handler_entry", "irq_handler_exit", "timer_expire_entry", "timer_expire_exit", "timer_start"),
    *("timer_delete", "timer_delete_sync", "timer_delete_sync_try", "timer_shutdown_sync"),
    "cpuhp_enter",  # until a CPU is taken off
}


def stir(folder: Path) -> None:
    """Make timers, softirqs, interrupts, switches, a work item and an exit happen."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(100):
            sender.sendto(b"x", ("127.0.0.1", 9))
    with (folder / "stir").open("wb") as file:
        for _ in range(5):
            file.write(bytes(4096))
            file.flush()
            os.fsync(file.fileno())
    for _ in range(20):
        time.sleep(0.001)
    terminal = os.openpty()
    os.write(terminal[0], b"x")  # what reaches a terminal's other side does so by a work item
    for fd in terminal:
        os.close(fd)
    subprocess.run(["true"], check=True)


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Give a folder whose fsync reaches a device, as far as this machine has one."""
    return tmp_path


@pytest.mark.parametrize("attach", ["tp_btf", "raw_tp"])
@pytest.mark.parametrize("name", probes.names())
def test_each_hook_counts_when_on_and_only_then(name: str, attach: str, disk: Path) -> None:
    """Loaded means off; steering turns it on; a cleared flag stops it at once (how a CPU budget is enforced)."""
    with live.live(name, attach) as probe:
        stir(disk)
        assert not any(row["runs"] for row in probe.stats().values())
        probe.steer()
        stir(disk)
        running = probe.stats()
        silent = [hook for hook, row in running.items() if not row["runs"]]
        assert not set(silent) - MAY_BE_SILENT - set(probe.left_out), running
        probe.off()
        stopped = probe.stats()
        stir(disk)
        assert probe.stats() == stopped


def test_state_from_before_a_pause_is_not_believed(last_cpu: int) -> None:
    """A task that waits both when the probe goes off and when it goes on has not waited all the time in between."""
    hog = live.python("while True: pass")
    with live.live("run_queue") as probe, live.running(*hog, cpu=last_cpu), live.running(*hog, cpu=last_cpu):
        probe.steer()
        time.sleep(STALE_S)
        probe.off()
        time.sleep(2 * STALE_S)
        before = probe.snapshot()
        probe.sightings()  # of the first part: other waits on a busy machine
        probe.steer(latency_us=int(STALE_S * 1e6))
        time.sleep(STALE_S)
        longest = max(float(str(_dig(row, "run_queue_us", "max"))) for row in probe.rows("processes", before))
        assert longest < STALE_S * 1e6
        assert not probe.sightings()


def _dig(row: object, *path: str) -> object:
    for key in path:
        assert isinstance(row, dict)
        row = row[key]
    return row


# Children of a name of their own that exit at once: each is one small record.
FORKS = """
import os
with open("/proc/self/comm", "w") as comm: comm.write("gw-forker")
for _ in range({count}):
    if (pid := os.fork()) == 0: os._exit(3)
    os.waitpid(pid, 0)
"""


def _fork(count: int) -> None:
    subprocess.run(live.python(FORKS.format(count=count)), check=True)


def test_a_full_ring_counts_what_it_loses_and_garbles_nothing() -> None:
    """Nobody reads 1,500 events: those that found room are whole and in order, the others are counted, and it goes on after."""
    with live.live("process_exit") as probe:
        probe.steer(comm=("gw-forker",))
        _fork(1500)
        found = probe.sightings()
        lost = probe.stats()["sched_process_exit"]["lost"]
        assert lost > 0
        assert len(found) + lost == 1501
        assert {(item.subject, item.kind) for item in found} == {("gw-forker", "proc.exit")}
        assert {item.data["code"] for item in found} <= {0, 3}
        assert [item.t_mono_ns for item in found] == sorted(item.t_mono_ns for item in found)
        _fork(3)
        assert len(probe.sightings()) == 4


def test_violations_are_rate_limited_and_the_rest_counted(delay_object: Path) -> None:
    """Eight events of one hook on one CPU within a second, whatever happens: what is left out is counted as suppressed."""
    timer = live.TimerFd()
    with live.live("timers") as probe, delayed(delay_object, "hrtimer_expire_entry", ms=0.1, times=5000):
        timer.set(time.monotonic_ns(), 1_000_000)
        probe.steer(run_us=50)
        time.sleep(STALE_S)
        probe.off()
        row = probe.stats()["hrtimer_expire_exit"]
        told = sum(item.kind == "timer.overlong" for item in probe.sightings())
        assert told > 0
        # An emulated CPU may be too slow for more than eight in a second.
        assert row["suppressed"] > 0 or "GATEWARDEN_GUEST" in os.environ
        assert told <= 8 * (STALE_S + 2) * possible_cpus()
        assert row["lost"] == 0
    timer.close()


def test_buckets_are_the_kernels(tmp_path: Path) -> None:
    """`histogram.bucket` gives the index that gw_bucket() gives: its C text, compiled here, agrees at every edge and around."""
    header = (ROOT / "bpf/common.bpf.h").read_text()
    functions = re.findall(r"static __always_inline __u32 gw_(?:log2|bucket)\(.*?\n}\n", header, re.DOTALL)
    assert len(functions) == 2
    shim = (
        "#include <stdio.h>\ntypedef unsigned int __u32; typedef unsigned long long __u64;\n"
        f"#define __always_inline inline\n#define GW_BUCKETS {histogram.BUCKETS}\n"
    )
    main = 'int main(void) { __u64 v; while (scanf("%llu", &v) == 1) printf("%u\\n", gw_bucket(v)); return 0; }\n'
    program = live.compiled(tmp_path, "buckets", shim + "".join(functions) + main)
    edges = [histogram.upper_edge(index) for index in range(histogram.BUCKETS)]
    values = sorted({0, 1, (1 << 64) - 1, *(edge + step for edge in edges for step in (-1, 0, 1))})
    result = subprocess.run([program], input="\n".join(map(str, values)), capture_output=True, text=True, check=True)
    assert [int(line) for line in result.stdout.split()] == [histogram.bucket(value) for value in values]


def test_map_memory_is_within_the_aim() -> None:
    """The probes that are on by default take at most 4 MiB of kernel memory together, on two CPUs."""
    total = 0
    for name in config.from_plain({}).probes.enabled:
        with live.live(name) as probe:
            total += probe.held.map_bytes()
    assert total <= (4 << 20) * max(1, possible_cpus() // 2)


def test_a_truncated_ring_record_is_an_error_of_the_decoder_alone() -> None:
    """A real record cut at any byte raises ValueError, nothing else."""
    with live.live("process_exit") as probe:
        probe.steer(comm=("gw-forker",))
        _fork(1)
        ring = probe.held.ring
        assert ring is not None
        _, record = ring.read()[0]
        layout = next(value for value in vars(probe.probe).values() if isinstance(value, Layout) and "event" in value.name)
        for length in range(layout.size):
            with pytest.raises(ValueError, match="want"):
                probe.probe.sighting(memoryview(record[:length]))
