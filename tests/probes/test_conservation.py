"""conservation: options to maps, decoding, states."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.collider.symbols import Symbols
from agent.errors import Unsupported
from agent.kernelnames import KernelNames
from agent.model import Data
from agent.narrow import rows
from agent.placing import Kallsyms
from agent.probes import conservation
from agent.probes.conservation import EVENT, PLACE, PLACES, ROW, SUM, Counter, Options
from tests.probes.doubles import Tables, decode_or_refuse, refuses_short

PROBE = probes.load("conservation")
SYMBOLS = """
ffffffff81000000 T _stext
ffffffff81001000 t tick
ffffffff81002000 t tick
ffffffff82000000 D __per_cpu_start
0000000000001000 D runqueues
ffffffffc0001000 t driver_tick [driver]
ffffffffc0001800 t driver_poll [driver]
ffffffffc0003000 b driver_frames [driver]
ffffffffc0003010 b driver_ports [driver]
""".strip().splitlines()
FRAMES, TICK, POLL = 0xFFFFFFFFC0003000, 0xFFFFFFFFC0001000, 0xFFFFFFFFC0001800
GOOD = Counter("driver_frames", ("driver_tick",), 16)


def names() -> KernelNames:
    """Give the symbols above."""
    return Kallsyms(Symbols(SYMBOLS))


def words(*values: int) -> bytes:
    """Give a key."""
    return b"".join(value.to_bytes(8, "little") for value in values)


def test_counters_become_places_and_callbacks() -> None:
    """Pins what the loader writes: each counter's place, and for each callback the set of the counters that it adds to."""
    both = Counter("driver:driver_ports+4", ("driver_tick", "driver:driver_poll"), 1, 4)
    found = conservation.placed(Options((GOOD, both)), names)
    assert found.lacking == ()
    assert found.maps["callbacks"] == {words(TICK): b"\3\0\0\0", words(POLL): b"\2\0\0\0"}
    places = [PLACE.unpack(value) for value in found.maps["places"].values()]
    assert len(places) == PLACES
    assert (places[0]["address"], places[0]["step"], places[0]["length"], places[0]["name"]) == (FRAMES, 16, 8, "driver_frames")
    assert (places[1]["address"], places[1]["length"]) == (FRAMES + 0x14, 4)
    assert places[2]["name"] == ""


def test_no_counters_ask_for_no_symbols() -> None:
    """Pins that without counters nothing is looked up: kallsyms may be hidden then."""
    assert conservation.placed(Options(), lambda: pytest.fail("looked up")).lacking == ()


@pytest.mark.parametrize(
    ("counter", "said"),
    [
        (Counter("driver_frame", ("driver_tick",)), "no kernel symbol 'driver_frame', did you mean driver_frames?"),
        (Counter("driver_tick", ("driver_tick",)), "is text (a function), not data"),
        (Counter("runqueues", ("driver_tick",)), "is per-CPU data"),
        (Counter("driver_frames+4", ("driver_tick",)), "is not a multiple of its length 8; allowed: :1, :2, :4"),
        (Counter("driver_frames", ("driver_tock",)), "no kernel function 'driver_tock', did you mean driver_tick"),
        (Counter("driver_frames", ("tick",)), "2 functions are called tick: 0xffffffff81001000, 0xffffffff81002000"),
        (Counter("driver_frames", ("driver_ports",)), "driver_ports is no function (kind 'b'"),
        (Counter("other:driver_frames", ("driver_tick",)), "no kernel symbol 'other:driver_frames'"),
    ],
    ids=lambda value: value.symbol if isinstance(value, Counter) else value[:20],
)
def test_what_cannot_be_watched_is_named(counter: Counter, said: str) -> None:
    """Pins each refusal: beside a good counter it is told in its own line, alone it is the probe's reason."""
    found = conservation.placed(Options((counter, GOOD)), names)
    assert len(found.lacking) == 1
    assert said in found.lacking[0]
    assert PLACE.unpack(found.maps["places"][bytes(4)])["address"] == 0
    assert found.maps["callbacks"] == {words(TICK): b"\2\0\0\0"}
    with pytest.raises(Unsupported) as error:
        conservation.placed(Options((counter,)), names)
    assert said in error.value.reason
    assert "agentctl probes load" in error.value.remedy


def test_a_counter_is_named_once() -> None:
    """Pins that the second of one name is refused: its callbacks belong to the first."""
    (said,) = conservation.placed(Options((GOOD, GOOD)), names).lacking
    assert said == "driver_frames: is named twice: give it all its callbacks in one place"


@given(st.binary(max_size=2 * EVENT.size))
def test_any_bytes_are_decoded_or_refused(record: bytes) -> None:
    """Any ring buffer record is a Sighting or a ValueError."""
    decode_or_refuse(PROBE, record)


def test_a_truncated_record_is_refused() -> None:
    """Each length below the struct's is a ValueError."""
    refuses_short(PROBE, EVENT)


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        ({}, "race.lost_update", ""),
        ({"symbol": ""}, "race.lost_update", ""),  # a kernel without bpf_snprintf
        ({"symbol": "0xffffffffc0003000"}, "race.lost_update", ""),  # one without data symbols
        ({"symbol": "other_frames [other]"}, "race.inconclusive", conservation.MOVED),
        ({"calls": 900, "alone": 800, "alone_deficit": 80}, "race.inconclusive", conservation.SHORT),  # 1 in 10, 1 in 5
        (
            {"calls": 900, "alone": 800, "alone_deficit": 4},
            "race.lost_update",
            "",
        ),  # 1 in 200: an unseen one, or another writer
        ({"calls": 8, "alone": 8, "alone_deficit": 8, "deficit": 0}, "race.inconclusive", conservation.SHORT),
        ({"falls": 1}, "race.inconclusive", conservation.FELL),
        ({"windows": 15}, "race.inconclusive", conservation.EARLY),
        ({"calls": 9000, "alone": 8700, "windows": 5}, "race.lost_update", ""),  # 1 in 30 overlaps: no chance
        ({"calls": 9000, "alone": 8700, "windows": 4}, "race.inconclusive", conservation.EARLY),
        ({"calls": 900, "alone": 400}, "race.inconclusive", conservation.EARLY),
        ({"calls": 5000, "alone": 100}, "race.lost_update", ""),  # nearly all overlap: nothing to compare with
    ],
)
def test_events(fields: dict[str, str | int], kind: str, reason: str) -> None:
    """Pins when a deficit is a lost update: the symbol is still there, and nothing ever contradicted the configuration."""
    told = {"name": "driver:driver_frames+8", "symbol": "driver_frames [driver]", "callback": "driver_tick [driver]"}
    record = EVENT.pack(
        **(told | {"t_ns": 7, "step": 16, "expected": 320, "growth": 310, "deficit": 20, "windows": 16} | fields)
    )
    found = PROBE.sighting(memoryview(record))
    assert (found.kind, found.subject, found.t_mono_ns) == (kind, "driver:driver_frames+8", 7)
    assert found.data.get("reason", "") == reason
    assert found.data["deficit"] == fields.get("deficit", 20)


def tables(place: bytes, total: bytes, *cpus: bytes) -> Tables:
    """Give the maps with one counter."""
    rest = bytes(PLACE.size * (PLACES - 1))
    sums = bytearray(total + bytes(SUM.size * (PLACES - 1)))
    return Tables(percpus={"rows": [list(cpus)] * PLACES}, arrays={"places": bytearray(place + rest), "sums": sums})


def line(before: Tables | None, after: Tables) -> Data:
    """Give the report's only line."""
    was = PROBE.snapshot(before) if before else None
    (found,) = rows(PROBE.report(was, PROBE.snapshot(after)), "counters")
    return found


def test_the_deficit_is_the_largest_of_the_cpus() -> None:
    """Pins that windows of two CPUs, which cover the same time, are not added up, and that the interval's count."""
    place = PLACE.pack(name="frames", address=FRAMES)
    before = tables(place, SUM.pack(started=10), ROW.pack(calls=4, deficit=50), ROW.pack(calls=4, deficit=3))
    after = tables(
        place, SUM.pack(started=30), ROW.pack(calls=100, alone=60, deficit=55, windows=20), ROW.pack(calls=12, deficit=12)
    )
    assert line(before, after)["deficit"] == 9
    assert line(None, after)["deficit"] == 55
    assert line(before, after)["state"] == "losing"


@pytest.mark.parametrize(
    ("place", "total", "row", "state", "reason"),
    [
        ({"reason": "no kernel symbol"}, {}, {}, "inconclusive", "no kernel symbol"),
        ({}, {"started": 9}, {"calls": 9, "alone": 5, "deficit": 4, "alone_deficit": 4}, "inconclusive", conservation.SHORT),
        ({}, {"started": 9}, {"calls": 900, "alone": 800, "deficit": 40, "alone_deficit": 4, "windows": 16}, "losing", ""),
        ({}, {"started": 9}, {"calls": 9, "alone": 5, "deficit": 4, "windows": 1}, "inconclusive", conservation.EARLY),
        ({}, {"started": 9, "falls": 1}, {"calls": 9, "deficit": 4}, "inconclusive", conservation.FELL),
        ({}, {"started": 9}, {"unread": 1}, "inconclusive", conservation.UNREAD),
        ({}, {}, {}, "unseen", conservation.UNSEEN),
        ({}, {"started": 9}, {}, "inconclusive", conservation.CROWDED),
        ({}, {"started": 9}, {"calls": 9}, "conserved", ""),
        ({}, {"started": 9}, {"calls": 100, "alone": 60, "deficit": 1, "windows": 16}, "losing", ""),
    ],
)
def test_states(place: dict[str, str], total: dict[str, int], row: dict[str, int], state: str, reason: str) -> None:
    """Pins each state of a counter and its reason."""
    found = line(None, tables(PLACE.pack(name="frames", **place), SUM.pack(**total), ROW.pack(**row)))
    assert (found["state"], found["reason"]) == (state, reason)
