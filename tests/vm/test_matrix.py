"""The matrix against itself: what can be held without a virtual machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.vm import kernels
from tests.vm.__main__ import show
from tests.vm.guest.planted import FAULTS, LOST, accusations
from tests.vm.guest.steps import told

ROOT = kernels.ROOT
MODULES = Path(__file__).parent / "modules"
# The patch is no fault; it repairs one.
PATCHES = {"lost_timer_patch"}


def source(name: str) -> str:
    """Give a planted module's text."""
    return (MODULES / f"{name}.c").read_text()


def test_every_module_is_built_and_expected() -> None:
    """Pins that the folder, its Kbuild and the table of expectations name the same modules."""
    files = {path.stem for path in MODULES.glob("*.c")}
    built = set(re.findall(r"(\w+)\.o", (MODULES / "Kbuild").read_text()))
    assert files == built == {item.name for item in (*FAULTS, *LOST)} | PATCHES


@pytest.mark.parametrize("name", sorted({item.name for item in (*FAULTS, *LOST)}))
def test_a_module_says_what_it_plants(name: str) -> None:
    """Pins that each module opens with its class, the real bug it follows and its repair, and has the expected callback."""
    fault = next((item.fault for item in FAULTS if item.name == name), "F6")
    callback = next(item.callback for item in (*FAULTS, *LOST) if item.name == name)
    text = source(name)
    opening = text.split("*/")[0]
    assert re.search(rf"^ \* {fault}: ", opening, re.MULTILINE)
    assert " * After " in opening
    assert "Repair" in opening
    assert re.search(rf"^static \S+( \S+)? {callback}\(", text, re.MULTILINE)


def test_the_newest_package_is_the_newest_by_number() -> None:
    """Pins that 6.1.0-100 comes after 6.1.0-57, and that real-time and unsigned images are not mixed up."""
    names = [
        "linux-image-6.1.0-57-amd64",
        "linux-image-6.1.0-100-amd64",
        "linux-image-6.1.0-101-rt-amd64",
        "linux-image-6.1.0-9-amd64",
    ]
    assert kernels.newest_of("6.1", names) == "linux-image-6.1.0-100-amd64"
    assert kernels.newest_of("6.1-rt", names) == "linux-image-6.1.0-101-rt-amd64"
    with pytest.raises(kernels.Unavailable, match="apt knows no package"):
        kernels.newest_of("6.12", names)


def test_benign_findings_and_late_emulated_cpus_accuse_nobody() -> None:
    """Pins what silence means: neither a benign finding nor F7, which the host's load causes, counts."""
    found = [("F2", "benign", "a"), ("F7", "suspect", "b"), ("F3", "fault", "c [m]")]
    report = {"findings": [dict(zip(("class", "verdict", "callback"), row, strict=True)) for row in found]}
    assert accusations(report) == [("c", "F3", "fault")]
    assert told(accusations(report)) == "F3 c (fault)"
    assert told([]) == "nothing"


def test_a_machine_that_can_run_none_says_so() -> None:
    """Pins exit code 77 and a reason, by which CI tells a machine at fault from a kernel at fault: a race takes two CPUs."""
    command = [sys.executable, "-m", "tests.vm", "--kernel", "6.1"]
    one = min(os.sched_getaffinity(0))
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, preexec_fn=lambda: os.sched_setaffinity(0, {one})
    )
    assert (done.returncode, done.stdout) == (77, "SKIPPED: no virtual machine can run here: a race takes two CPUs\n")


def test_steps_that_would_begin_too_late_are_said_to_be_skipped(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Pins that a slow machine leaves steps out by name, not silently, and that this is no failure."""
    out = tmp_path / "table.json"
    files = ["--modules", str(tmp_path), "--unknown", str(tmp_path / "m.ko"), "--out", str(out)]
    command = [sys.executable, "-m", "tests.vm.guest", *files, "--steps", "hunt,probes", "--begin", "-1"]
    subprocess.run(command, cwd=ROOT, check=True)
    table = json.loads(out.read_text())
    assert [done["step"] for done in table] == ["hunt", "probes"]
    assert show("linux-image", table, 0.0)
    said = capsys.readouterr().out
    assert said.count("SKIPPED") == 2
    assert "no step begins after" in said
