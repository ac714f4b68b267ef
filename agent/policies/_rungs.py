"""The rungs of the recovery ladder, where each cause enters it, and who can take which: tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agent.config import Workload

HOUR_S, DAY_S = 3600.0, 86400.0


@dataclass(frozen=True, slots=True)
class Rung:
    """`name` is its action. Times in seconds.

    At most `budget` within `window_s`, `cooldown_s` apart, counted for each workload (`machine`: for all together). What
    follows waits `settle_s`, or as long as the finding needs to tell whether it helped; 0: it is no cure, the next follows at
    once.
    """

    name: str
    budget: int
    window_s: float
    cooldown_s: float
    settle_s: float
    machine: bool = False


#                            budget in     apart  settle
RUNGS: tuple[Rung, ...] = (
    Rung("capture", 6, HOUR_S, 60, 0),
    Rung("terminate", 6, HOUR_S, 10, 10),
    Rung("restart", 4, HOUR_S, 30, 15),
    Rung("restart_dependants", 2, HOUR_S, 120, 30),
    Rung("degrade", 8, HOUR_S, 1, 15),
    Rung("reboot", 2, DAY_S, 1800, 300, machine=True),
    Rung("power_cycle", 1, DAY_S, 3600, 300, machine=True),
)
INDEX = {rung.name: index for index, rung in enumerate(RUNGS)}
GROUND = -1


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a cause enters: at `rung`, or at `otherwise` if the workload cannot take that one.

    `patient`: its parent has started it again already, so that `otherwise` waits until that is seen not to help. It climbs no
    higher than `top`.
    """

    rung: str
    otherwise: str = ""
    patient: bool = False
    top: str = "power_cycle"


ENTRIES: dict[str, Entry] = {
    "deadline": Entry("capture"),
    "health_check": Entry("capture"),
    "oom": Entry("degrade", "restart", patient=True),
    "audio_lost": Entry("degrade", "restart", top="degrade"),  # a camera that is off is no reason to reboot the gateway
    "timeout": Entry("degrade", "restart", top="degrade"),
    "crash_loop": Entry("degrade", "restart"),  # restarts alone have been tried: that is the loop
    "gave_up": Entry("restart_dependants", "restart"),
}
"""By `cause` of the finding. A finding with another cause, or none, is none of the ladder's business."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What the ladder knows of a workload."""

    name: str
    order: int
    """Its place in the configuration."""
    priority: int
    required: bool
    ours: bool
    """A `command=`: the keeper is its parent."""
    supervised: bool
    """A unit with a Restart= of its own: only watched, until systemd gives it up."""
    profiles: tuple[str, ...]
    dependants: bool


def specs(workloads: Sequence[Workload], supervised: frozenset[str]) -> dict[str, Spec]:
    """Read the configuration."""
    needed = {name for one in workloads for name in one.after}
    return {
        one.name: Spec(
            name=one.name,
            order=order,
            priority=one.priority,
            required=one.required,
            ours=one.command is not None,
            supervised=one.name in supervised,
            profiles=one.degrade if one.command is not None else (),
            dependants=one.name in needed,
        )
        for order, one in enumerate(workloads)
    }


def takes(spec: Spec, rung: Rung, *, mcu: bool) -> bool:
    """Whether `rung` exists for this workload at all; `degrade` depends on who still has a profile, and is asked elsewhere."""
    match rung.name:
        case "terminate":
            return spec.ours  # whose parent is another is ended by its restart
        case "restart_dependants":
            return spec.dependants or spec.supervised
        case "reboot":
            return spec.required
        case "power_cycle":
            return spec.required and mcu
        case _:
            return True
