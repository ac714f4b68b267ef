"""What the actions need of the outside world, put together: the keeper, the broker, the MCU, last words, the workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from agent.actions import Recovery, Target, Tools
from agent.config import Config, Workload
from agent.errors import LoadFailed, NotRunning
from agent.linux import evidence
from agent.linux.files import SnapshotFolder
from agent.model import Finding, Json, plain
from agent.pipeline import Pipeline
from agent.ports import Clock, Intents, Journal, Keeper, Machine, Mcu, Units
from agent.probing import Probing


@dataclass(frozen=True, slots=True)
class NoMcu:
    """`ports.Mcu` where none is configured: every call says so."""

    why: str

    def power_cycle(self, _reason: str) -> str:
        """Refuse. Raises NotRunning."""
        raise NotRunning(self.why)


def targets(workloads: Sequence[Workload]) -> Mapping[str, Target]:
    """Give the workloads as the actions see them, by name."""
    return {one.name: _target(one, workloads) for one in workloads}


def _target(one: Workload, workloads: Sequence[Workload]) -> Target:
    behind = dependants(one.name, workloads)
    if one.unit is not None:
        return Target(one.name, "unit", one.unit, behind)
    if one.container is not None:
        return Target(one.name, "container", one.container, behind)
    return Target(one.name, "keeper", one.name, behind)


def dependants(name: str, workloads: Sequence[Workload]) -> tuple[str, ...]:
    """Give those that come after `name`, directly or not, each behind all of them that it needs itself."""
    found: dict[str, None] = {name: None}
    rest = list(workloads)
    reached = {name}
    while more := [one.name for one in rest if one.name not in reached and reached & set(one.after)]:
        reached.update(more)
    while len(found) < len(reached):  # `after` goes in no circle: the configuration is checked for that
        found |= {one.name: None for one in rest if one.name in reached and set(one.after) & reached <= found.keys()}
    return tuple(found)[1:]


class Broker(Units, Machine, Protocol):
    """What the broker's client is for the actions."""


def recovery(
    workloads: Sequence[Workload],
    broker: Broker,
    keeper: Keeper,
    mcu: Mcu | None,
    intents: Intents,
    threads: Callable[[str], Json],
) -> Recovery:
    """Put the ports together."""
    absent = NoMcu("no [mcu] section: there is nothing that could cut the power")
    return Recovery(keeper, broker, broker, mcu or absent, intents, targets(workloads), threads)


def tools(settings: Config, clock: Clock, journal: Journal, pipeline: Pipeline, probing: Probing, ports: Recovery) -> Tools:
    """Give all that the actions may use."""

    def run_queue(_finding: Finding) -> Json:
        return probing.fresh("run_queue")

    def events(_finding: Finding) -> Json:
        return list[Json](plain(event) for event in list(pipeline.latest))

    def switch_off(probe: str) -> None:
        if not probing.off(probe):
            raise LoadFailed(f"probe {probe} does not run")

    readers = {**evidence.readers(settings.paths.broker_socket), "run_queue": run_queue, "events": events}
    return Tools(clock, journal, SnapshotFolder(settings.paths.state_dir / "snapshots"), readers, switch_off, ports)
