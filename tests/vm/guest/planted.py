"""The planted modules, and what is expected of each: the contract of `tests/vm/modules`, as data."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

AGENTCTL = Path(sys.executable).with_name("agentctl")
# The classes that an emulated CPU earns by itself: it stands still while the host runs something else, so timers are late.
OF_THE_HOST = {"F7"}
SLACK_S = 120.0
LIFE_S = 300


@dataclass(frozen=True, slots=True)
class Planted:
    """A module with a timer life-cycle fault: `fault` (class) of `callback`; seen within `seconds` of a scan."""

    name: str
    fault: str
    callback: str
    seconds: int = 5


FAULTS = (
    Planted("f1_reinit", "F1", "f1_stale"),
    Planted("f2_restart", "F2", "f2_shape"),
    Planted("f3_delete", "F3", "f3_trigger"),
    Planted("f5_free", "F5", "f5_poll"),
    Planted("f8_stuck", "F8", "f8_victim", seconds=16),
    Planted("f9_storm", "F9", "f9_poll"),
    Planted("f10_rearm", "F10", "f10_watchdog"),
)


@dataclass(frozen=True, slots=True)
class Lost:
    """A module whose `callback` loses updates of the counter `symbol`; fixed=1 and fixed=2 do not."""

    name: str
    symbol: str
    callback: str


LOST = (
    Lost("lost_timer", "lost_timer_frames", "lost_timer_tick"),
    Lost("lost_hrtimer", "lost_hrtimer_frames", "lost_hrtimer_tick"),
    Lost("lost_heap", "*lost_heap_device", "lost_heap_poll"),
)


@dataclass(slots=True)
class Truth:
    """What a module says of itself when it is removed: how often its owner acted, how often the fault was there."""

    rounds: int = 0
    faults: int = 0


@contextlib.contextmanager
def loaded(module: Path, fixed: int = 0) -> Iterator[Truth]:
    """Keep a module in the kernel for the duration of the block; its truth is filled in at the end."""
    truth = Truth()
    subprocess.run(["insmod", str(module), f"fixed={fixed}", f"seconds={LIFE_S}"], check=True)
    try:
        yield truth
    finally:
        subprocess.run(["rmmod", module.stem], check=True)
        log = subprocess.run(["dmesg"], capture_output=True, text=True, check=True).stdout
        said = re.findall(rf"planted {module.stem}: .*rounds=(\d+) faults=(\d+)", log)
        truth.rounds, truth.faults = map(int, said[-1])


def race(verb: str, *arguments: str, seconds: int) -> dict[str, Any]:
    """Run `agentctl race`; give its JSON. Raises RuntimeError with its own words if it gives none."""
    command = [str(AGENTCTL), "race", verb, *arguments, "--seconds", str(seconds), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + SLACK_S, check=False)
    try:
        return cast("dict[str, Any]", json.loads(done.stdout))
    except ValueError:
        raise RuntimeError(
            f"{' '.join(command[1:])}: exit {done.returncode}: {done.stdout[-500:]}{done.stderr[-1500:]}"
        ) from None


def accusations(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Give (callback, class, verdict) of every finding of a scan that is not benign and not the host's doing."""
    return [
        (str(found["callback"]).split(" ")[0], str(found["class"]), str(found["verdict"]))  # without its "[module]"
        for found in report["findings"]
        if found["verdict"] != "benign" and found["class"] not in OF_THE_HOST
    ]
