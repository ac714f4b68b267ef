"""The structs of `bpf/tools/collider.bpf.c` against their Python layouts."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.collider.hits import HIT
from agent.layout import Layout
from agent.linux.watchpoint import HIT_BYTES, OBJECT, RECORDS, SLOT
from tests.btf import Btf

SOURCE = Path(__file__).parents[2] / "bpf/tools/collider.bpf.c"


@pytest.mark.parametrize("layout", [SLOT, HIT], ids=lambda layout: layout.name)
def test_layouts_are_the_compiled_structs(layout: Layout) -> None:
    """Pins each field's place and size."""
    btf = Btf.of(OBJECT)
    struct = btf.structs()[layout.name]
    assert list(layout.offsets()) == list(btf.fields(struct))
    assert layout.size == struct.other


def test_records_are_counted_alike() -> None:
    """Pins the size of a record and their number per CPU on both sides."""
    assert HIT.size == HIT_BYTES
    assert f"#define RECORDS {RECORDS} " in SOURCE.read_text()
