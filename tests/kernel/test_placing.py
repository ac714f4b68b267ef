"""Kernel addresses in the maps of `conservation`: root's loader finds them by name, a user without capabilities only reads."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent import config, loader, probes
from agent.config import Config
from agent.linux import kallsyms, pins

pytestmark = [pytest.mark.kernel, pytest.mark.root]

READER = """
import json, sys, time
from pathlib import Path
from agent import probes
from agent.linux.attached import Attached
from agent.linux.bpf import possible_cpus
probe = probes.load("conservation")
held = Attached.from_pins(Path(sys.argv[1]), possible_cpus())
held.maps.steer(probe.steer(probe.Options(), held.maps))
time.sleep(1)
refused = {}
for name, key in (("places", bytes(4)), ("callbacks", bytes(8))):
    try:
        held.maps.maps[name].update(key, bytes(held.maps.maps[name].info.value_size))
    except Exception as error:
        refused[name] = type(error).__name__
print(json.dumps({"refused": refused, **probe.report(None, probe.snapshot(held.maps))}))
"""
NAMES = ("jiffies_64", "__start_rodata")  # the second: where the kernel names no variables
TICKS = ("tick_sched_timer", "tick_nohz_handler")  # the second has that work since 6.9, before only without high resolution


def first(*names: str) -> str:
    """Give the first of these that the kernel has."""
    with kallsyms.PATH.open() as lines:
        known = {line.split()[2] for line in lines}
    return next(name for name in names if name in known)


@pytest.fixture
def settings(bpffs: Path, lab_config: Callable[..., Path]) -> Callable[..., Config]:
    """Give a configuration over a fresh bpffs, with these counters."""
    assert bpffs.is_dir()

    def made(*counters: str) -> Config:
        text = "".join(f"[[probes.conservation.counters]]\n{counter}\n" for counter in counters)
        return config.check(lab_config(f'[probes]\nenabled = ["conservation"]\n{text}'))

    return made


def loading(settings: Config) -> tuple[str, str]:
    """Load; give what became of the probe, and why."""
    (row,) = loader.load(settings)
    return row.state, row.reason


def good(step: int = 1) -> str:
    """Give a counter that the kernel has."""
    return f'symbol = "{first(*NAMES)}"\ncallbacks = ["{first(*TICKS)}"]\nstep = {step}\n'


def test_names_become_addresses_which_an_unprivileged_reader_cannot_change(settings: Callable[..., Config]) -> None:
    """Pins the whole way: an unknown name is told beside a good one, which is watched; the reader's writes are refused."""
    chosen = settings(good(), 'symbol = "no_such_counter"\ncallbacks = ["schedule_timeout"]\n')
    state, reason = loading(chosen)
    assert state == "loaded"
    assert reason.startswith("no_such_counter: no kernel symbol 'no_such_counter'")
    folder = pins.folder_of(chosen.paths.bpffs_dir, "conservation", probes.object_path("conservation"))
    for parent in chosen.paths.bpffs_dir.parents:
        if parent.stat().st_uid == 0 and str(parent).startswith("/tmp/pytest"):
            parent.chmod(0o755)
    command = ["setpriv", "--reuid", "65534", "--regid", "gatewarden", "--clear-groups", "--bounding-set", "-all"]
    done = subprocess.run([*command, sys.executable, "-c", READER, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: Any = json.loads(done.stdout)
    assert found["refused"] == {"places": "BpfError", "callbacks": "BpfError"}
    watched, lacking = found["counters"]
    assert watched["runs"] > 0
    assert watched["state"] != "losing"  # the tick counts jiffies up on one CPU only, and reads them on the others
    assert (lacking["symbol"], lacking["state"]) == ("no_such_counter", "inconclusive")


def test_other_addresses_are_loaded_anew(settings: Callable[..., Config]) -> None:
    """Pins that a second load is a no-op unless a counter is another one (or lies elsewhere, which is the same)."""
    assert loading(settings(good())) == ("loaded", "")
    assert loading(settings(good())) == ("present", "")
    assert loading(settings(good(step=2))) == ("loaded", "")
    assert loading(settings(good(step=2))) == ("present", "")


def test_no_counter_is_found(settings: Callable[..., Config]) -> None:
    """Pins that the probe fails with the names if there is nothing to watch."""
    state, reason = loading(settings('symbol = "no_such_counter"\ncallbacks = ["schedule_timeout"]\n'))
    assert state == "failed"
    assert "no_such_counter" in reason
