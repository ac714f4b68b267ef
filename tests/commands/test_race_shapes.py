"""The JSON of `agentctl race …` is of its published schemas: every key named, none missing, each of its type."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter

from agent.collider.report import report
from agent.commands import _schemas
from agent.commands._race_shapes import SHAPES
from agent.model import Data
from tests.collider.doubles import PLAIN, trapped
from tests.collider.test_case import LOAD_STORE, LOSING, case
from tests.commands.conftest import Box, Replies
from tests.commands.test_scan import row, scan, snapshot
from tests.kernel.target import PLAIN as WORD
from tests.kernel.target import Target

AGENTCTL = Path(sys.executable).with_name("agentctl")


def holds(name: str, found: Any) -> None:
    """Hold a report against the type that its schema is made from; what the type does not name would be left out."""
    shape: Any = TypeAdapter(_schemas._readable(SHAPES[name]))
    assert shape.validate_json(json.dumps(found), strict=True) == found


def race(*arguments: str) -> Any:
    """Run `agentctl race` on this kernel."""
    done = subprocess.run([AGENTCTL, "race", *arguments, "--json"], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return json.loads(done.stdout)


def test_the_schemas_are_exported() -> None:
    """Pins the names, and the keys that the reports are fixed to."""
    assert set(SHAPES) <= set(_schemas.names())
    required: Callable[[Data], Any] = lambda made: set(made["required"])  # type: ignore[arg-type] # noqa: E731
    assert {"findings", "seen", "lost", "tier"} <= required(_schemas.of("race.scan"))
    keys = {"symbol", "address", "length", "writes", "growth", "lost_updates", "writers", "windows", "verdict", "reason"}
    assert keys <= required(_schemas.of("race.prove"))
    assert {"proved", "scanned", "lost"} <= required(_schemas.of("race.hunt"))


def test_a_scan(box: Box, serve: Callable[[Replies], None]) -> None:
    """Pins a scan with findings of both certainties."""
    found = {"a": row("start_running", "rx_cb [mine]", 5), "b": row("stuck", "tick_nohz_handler", 1, confirmed="state")}
    holds("race.scan", scan(box, serve, snapshot({}, 1), snapshot(found, 9), "--json").json)


def test_a_proof() -> None:
    """Pins a race of a writer with a load of its own, and what is inside a hunt."""
    made = case({PLAIN: replace(LOAD_STORE, load="mov rcx, qword ptr [rax]", load_address=PLAIN - 9)})
    made.take(trapped([replace(item, stack=7) for item in LOSING], missed=1), 0)
    found = report(made, hex, lambda _number: (1, 2))
    holds("race.prove", {"schema": "gatewarden.race.prove/1", **found})
    counts = {"modules": ["m"], "scanned": 1, "lost": 0}
    holds("race.hunt", {"schema": "gatewarden.race.hunt/1", "proved": [found], "acquitted": [], **counts})


@pytest.mark.kernel
def test_a_scan_of_this_kernel() -> None:
    """Pins the real verb's output."""
    holds("race.scan", race("scan", "--seconds", "3"))


@pytest.mark.kernel
@pytest.mark.skipif(platform.machine() != "x86_64", reason="watchpoints with a program on them work on x86-64 only")
def test_a_proof_and_a_hunt_on_this_kernel(tmp_path: Path) -> None:
    """Pins the real verbs' output, on a word that a program writes, and on whatever modules there are."""
    words = Target(tmp_path)
    try:
        with words.writing(("plain", 1, 0), gap_s=0.02):
            found = race("prove", words.place(WORD), "--seconds", "1")
    finally:
        words.close()
    holds("race.prove", found)
    assert [writer["load"] is not None for writer in found["writers"]] == [True]
    holds("race.hunt", race("hunt", "--seconds", "1"))
