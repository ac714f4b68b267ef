"""conservation in the running kernel: counters that bpf_timers on two CPUs count up, right and wrong."""

from __future__ import annotations

import ctypes
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent import placing
from agent.kernelnames import KernelNames
from agent.linux import kallsyms
from agent.linux.bpf import Map, bpf_command, possible_cpus
from agent.linux.libbpf import Loader
from agent.model import Data, Sighting
from agent.probes import conservation
from agent.probes.conservation import Counter, Options
from tests.kernel.live import PATIENCE_S, Live, compiled_object, live

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="a race takes two CPUs"),
]

PLAIN, ATOMIC, SOMETIMES = range(3)
ADDRESS, EVERY, RUNS = 3, 4, 5
UPDATES = 16
TEST_RUN = 10  # BPF_PROG_TEST_RUN
CALLBACK = "bpf_timer_cb"


class Counters:
    """`counters.bpf.c` in the kernel. The counters have no symbols: `data` names them to the loader's part."""

    def __init__(self, folder: Path) -> None:
        """Compile and load it."""
        self._loader = Loader()
        loaded = self._loader.load_detached(compiled_object(folder, "counters"))
        self._begin = loaded.programs["begin"]
        self._map = Map(os.dup(loaded.maps["counters"]), possible_cpus())

    def words(self) -> list[int]:
        """Give all words."""
        return list(struct.unpack("=6Q", self._map.lookup(bytes(4)) or bytes(48)))

    def write(self, **words: int) -> None:
        """Set words, by the names above in lower case."""
        now = self.words()
        for name, value in words.items():
            now[globals()[name.upper()]] = value
        self._map.update(bytes(4), struct.pack("=6Q", *now))

    def start(self, every_ns: int) -> None:
        """Let both CPUs count."""
        self.write(every=every_ns)
        for cpu in (0, 1):
            os.sched_setaffinity(0, {cpu})
            context = ctypes.create_string_buffer(struct.pack("=I", cpu), 4)
            head = struct.pack("=IIIIQQIIIIQQ", self._begin, 0, 0, 0, 0, 0, 0, 0, 4, 0, ctypes.addressof(context), 0)
            bpf_command(TEST_RUN, ctypes.create_string_buffer(head, len(head) + 16), "begin")

    def data(self, place: str, _length: int) -> int:
        """Give the address of a counter by its name here."""
        return self.words()[ADDRESS] + 8 * int(globals()[place])

    def function(self, name: str) -> int:
        """Give the address of a function of the kernel."""
        with kallsyms.PATH.open() as lines:
            return next(int(line.split()[0], 16) for line in lines if line.split()[2] == name)

    def close(self) -> None:
        """End it: closing the map cancels its timers."""
        self.write(every=0)
        self._map.close()
        self._loader.close()


@pytest.fixture
def counters(tmp_path: Path, last_cpu: int) -> Iterator[Counters]:
    """Give counters; the CPUs that this task may use are as before afterwards."""
    assert last_cpu
    made = Counters(tmp_path)
    yield made
    made.close()


def placed(watched: Live, names: KernelNames, *counters: Counter) -> None:
    """Do the loader's part."""
    placement = conservation.placed(Options(counters), lambda: names)
    assert not placement.lacking
    placing.fill({name: item.fd for name, item in watched.maps.maps.items()}, placement)
    watched.steer()


def line(watched: Live, name: str) -> Data:
    """Give one counter's line of the report."""
    return next(row for row in watched.rows("counters") if row["symbol"] == name)


def until(watched: Live, done: Callable[[], bool]) -> list[Sighting]:
    """Wait for it; gives the events of meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline, watched.rows("counters")
        time.sleep(0.05)
    return watched.sightings()


@pytest.mark.parametrize("every_ns", [300_000, 1_000_000])
def test_a_callback_that_does_not_always_add_is_no_race_however_they_overlap(counters: Counters, every_ns: int) -> None:
    """Pins the same beside a race that is found meanwhile: what lacks as much without overlap is never told as lost."""
    with live("conservation") as watched:
        counters.start(every_ns)
        placed(watched, counters, *(Counter(name, (CALLBACK,), UPDATES) for name in ("SOMETIMES", "PLAIN")))
        found: list[Sighting] = []

        def told() -> bool:
            found.extend(watched.sightings())
            return any(event.subject == "PLAIN" for event in found)

        until(watched, told)
        assert {event.kind for event in found if event.subject == "SOMETIMES"} <= {"race.inconclusive"}
        assert line(watched, "SOMETIMES")["state"] != "losing"


@pytest.mark.parametrize("attach", ["tp_btf", "raw_tp"])
def test_a_lost_update_is_found_and_its_atomic_twin_is_not(counters: Counters, attach: str) -> None:
    """Pins the whole: the plain counter loses, by no more than was really lost; its atomic twin does not."""
    with live("conservation", attach) as watched:
        counters.start(400_000)
        callbacks = (CALLBACK,)
        placed(watched, counters, *(Counter(name, callbacks, UPDATES) for name in ("PLAIN", "ATOMIC")))
        told: list[Sighting] = []

        def tell() -> bool:
            told.extend(event for event in watched.sightings() if event.kind == "race.lost_update")
            return bool(told) and line(watched, "PLAIN")["state"] == "losing"

        until(watched, tell)
        words = counters.words()
        really = words[ATOMIC] - words[PLAIN]
        assert int(str(line(watched, "PLAIN")["deficit"])) <= really
        assert line(watched, "ATOMIC")["state"] == "conserved"
        assert {event.subject for event in told} == {"PLAIN"}
        assert told[0].data["callback"] == CALLBACK
        assert 0 < int(str(told[0].data["deficit"])) <= really
        assert watched.stats()["hrtimer_expire_entry"]["lost"] == 0


def test_a_callback_that_does_not_always_add_is_no_race(counters: Counters) -> None:
    """Pins the first thing it must not invent: a callback that adds in seven runs of eight is named, nobody accused."""
    with live("conservation") as watched:
        counters.start(5_000_000)
        placed(watched, counters, Counter("SOMETIMES", (CALLBACK,), UPDATES))
        reasons = {conservation.SHORT, conservation.FELL}
        found = until(watched, lambda: line(watched, "SOMETIMES")["reason"] in reasons)
        assert line(watched, "SOMETIMES")["state"] == "inconclusive"
        assert {event.kind for event in found} <= {"race.inconclusive"}


def test_a_counter_that_is_set_back_is_no_race(counters: Counters) -> None:
    """Pins the second: a counter that somebody sets back is inconclusive."""
    with live("conservation") as watched:
        counters.start(5_000_000)
        placed(watched, counters, Counter("ATOMIC", (CALLBACK,), UPDATES))
        until(watched, lambda: line(watched, "ATOMIC")["state"] == "conserved")
        counters.write(atomic=0)
        found = until(watched, lambda: line(watched, "ATOMIC")["state"] == "inconclusive")
        assert {event.kind for event in found} <= {"race.inconclusive"}


def test_other_writers_hide_and_invent_nothing(counters: Counters) -> None:
    """Pins that growth from elsewhere is no deficit: a step smaller than what is added finds nothing."""
    with live("conservation") as watched:
        counters.start(400_000)
        placed(watched, counters, Counter("ATOMIC", (CALLBACK,), UPDATES // 2))
        until(watched, lambda: int(str(line(watched, "ATOMIC")["overlaps"])) > 20)
        assert (line(watched, "ATOMIC")["state"], line(watched, "ATOMIC")["deficit"]) == ("conserved", 0)


def test_a_counter_whose_callbacks_do_not_run(counters: Counters) -> None:
    """Pins the state of a counter whose module is gone, or does nothing: unseen, by name."""
    with live("conservation") as watched:
        counters.start(0)
        placed(watched, counters, Counter("PLAIN", ("schedule_timeout",)))
        assert (line(watched, "PLAIN")["state"], line(watched, "PLAIN")["reason"]) == ("unseen", conservation.UNSEEN)
