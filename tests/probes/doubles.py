"""A double of `ports.Maps`, and the two properties that each probe's decoder must have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from agent.histogram import BUCKETS, bucket
from agent.layout import Layout
from agent.model import Sighting
from agent.ports import Probe


@dataclass
class Tables:
    """Maps as plain Python objects."""

    hashes: dict[str, dict[bytes, bytes]] = field(default_factory=dict)
    percpus: dict[str, list[list[bytes]]] = field(default_factory=dict)
    arrays: dict[str, bytearray] = field(default_factory=dict)

    def items(self, name: str) -> Iterator[tuple[bytes, bytes]]:
        """Yield the entries of a hash."""
        yield from self.hashes[name].items()

    def percpu(self, name: str, index: int) -> Sequence[bytes]:
        """Give the values of one entry."""
        return self.percpus[name][index]

    def array(self, name: str) -> memoryview:
        """Give an array in place."""
        return memoryview(self.arrays[name])

    def replace(self, name: str, items: Mapping[bytes, bytes]) -> None:
        """Set a hash."""
        self.hashes[name] = dict(items)


def counts(*values_ns: int) -> tuple[int, ...]:
    """Give the kernel's buckets for these values."""
    found = [0] * BUCKETS
    for value in values_ns:
        found[bucket(value)] += 1
    return tuple(found)


def decode_or_refuse(probe: Probe, record: bytes) -> Sighting | None:
    """Run the decoder: whatever it is given, it gives a Sighting or raises ValueError, and nothing else."""
    try:
        found = probe.sighting(memoryview(record))
    except ValueError:
        return None
    assert found.source == probe.NAME
    assert found.subject is not None
    return found


def refuses_short(probe: Probe, layout: Layout) -> None:
    """Check that each truncation of a record is refused."""
    whole = bytes(layout.size)
    assert decode_or_refuse(probe, whole) is not None
    assert all(decode_or_refuse(probe, whole[:length]) is None for length in range(layout.size))
