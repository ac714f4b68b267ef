"""softirq: decoding and reports."""

from __future__ import annotations

from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import probes
from agent.model import Data
from agent.probes import softirq
from tests.probes.doubles import Tables, counts, decode_or_refuse, refuses_short

PROBE = probes.load("softirq")
US = 1000


def tables(vectors: dict[str, list[bytes]]) -> Tables:
    """Give the maps of the probe on two CPUs; a vector that is not named is idle."""
    idle = [bytes(softirq.VECTOR.size)] * 2
    return Tables(percpus={"vectors": [vectors.get(name, idle) for name in softirq.VECTORS]})


def vector(latency_us: tuple[int, ...], run_us: tuple[int, ...]) -> bytes:
    """Give a struct softirq_vector."""
    latency, run = [value * US for value in latency_us], [value * US for value in run_us]
    return softirq.VECTOR.pack(
        raised=len(latency),
        count=len(run),
        latency=counts(*latency),
        run=counts(*run),
        latency_max=max(latency),
        run_max=max(run),
    )


@given(st.binary(max_size=2 * softirq.EVENT.size))
def test_any_bytes_are_decoded_or_refused(record: bytes) -> None:
    """Any ring buffer record is a Sighting or a ValueError."""
    decode_or_refuse(PROBE, record)


def test_a_truncated_record_is_refused() -> None:
    """Each length below the struct's is a ValueError."""
    refuses_short(PROBE, softirq.EVENT)


@pytest.mark.parametrize("fields", [{"what": 2}, {"vector": 10}])
def test_what_is_not_known_is_refused(fields: dict[str, int]) -> None:
    """An event or a vector beyond the tables is a ValueError."""
    with pytest.raises(ValueError, match="is not known"):
        softirq.sighting(memoryview(softirq.EVENT.pack(**fields)))


@pytest.mark.parametrize(("what", "kind", "field"), [(0, "softirq.stall", "latency_us"), (1, "softirq.overlong", "run_us")])
def test_a_violation(what: int, kind: str, field: str) -> None:
    """The vector is named, times are microseconds, and a stall is another thing than an overlong run."""
    record = softirq.EVENT.pack(t_ns=9, value_ns=30_000 * US, budget_ns=20_000 * US, what=what, vector=3, cpu=1, comm="iperf")
    found = softirq.sighting(memoryview(record))
    assert (found.t_mono_ns, found.kind, found.subject, found.severity) == (9, kind, "NET_RX", "warning")
    assert (found.data[field], found.data["budget_us"], found.data["comm"]) == (30_000, 20_000, "iperf")


def test_options_become_the_ctl_struct() -> None:
    """Microseconds become nanoseconds, and the flag is on."""
    row = softirq.CTL.unpack(softirq.steer(softirq.Options(latency_us=100, run_us=200), Tables()))
    assert (row["enabled"], row["latency_ns"], row["run_ns"]) == (1, 100_000, 200_000)


def test_a_report_is_by_vector_and_cpu() -> None:
    """Only what was raised or ran in the interval has a line, and its maximum is the interval's."""
    idle = bytes(softirq.VECTOR.size)
    before = softirq.snapshot(tables({"TIMER": [vector((1,), (9,)), vector((1,), (1,))]}))
    after = softirq.snapshot(
        tables({"TIMER": [vector((1, 40), (9, 3)), vector((1,), (1,))], "RCU": [idle, vector((2,), (2,))]})
    )
    lines = cast("list[Data]", softirq.report(before, after)["softirq"])
    assert [(line["vector"], line["cpu"], line["count"], line["raised"]) for line in lines] == [
        ("TIMER", 0, 1, 1),
        ("RCU", 1, 1, 1),
    ]
    assert cast("Data", lines[0]["latency_us"])["max"] == 40
    assert cast("Data", lines[0]["run_us"])["count"] == 1
