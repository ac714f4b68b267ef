"""Workloads as far as this part knows them: by the name that the kernel gives to the process of their command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath

from agent.config import Config, Workload
from agent.model import Data, Sighting

_COMM_MAX = 15  # TASK_COMM_LEN less the NUL


def comms(workloads: tuple[Workload, ...]) -> dict[str, Workload]:
    """Give `{comm: workload}` of those that run a command; the comm is the program's file name, cut as the kernel cuts it.

    A command run through an interpreter has the interpreter's comm unless it sets its own (PR_SET_NAME).
    """
    return {PurePath(item.command[0]).name[:_COMM_MAX]: item for item in workloads if item.command}


def watching(settings: Config, names: Mapping[str, Workload]) -> Config:
    """Give `settings` with the comms `names` added to those that `process_exit` reports."""
    options = settings.probes.options.get("process_exit")
    listed = getattr(options, "comm", None)
    if options is None or listed is None:
        return settings
    fuller = replace(options, comm=tuple(dict.fromkeys((*listed, *names))))  # type: ignore[type-var]  # a dataclass instance
    return replace(settings, probes=replace(settings.probes, options={**settings.probes.options, "process_exit": fuller}))


def watched(settings: Config) -> tuple[str, ...]:
    """Give the comms whose deaths are reported."""
    listed: tuple[str, ...] = getattr(settings.probes.options.get("process_exit"), "comm", ())
    return listed


def labeller(names: Mapping[str, Workload]) -> Callable[[Sighting], Sighting]:
    """Give the function that writes the workload's name, and whether it is required, into `proc.exit` sightings."""

    def label(sighting: Sighting) -> Sighting:
        workload = names.get(str(sighting.data.get("comm")))
        if sighting.kind != "proc.exit" or workload is None:
            return sighting
        known: Data = {"workload": workload.name, "required": workload.required}
        return replace(sighting, subject=workload.name, data=sighting.data | known)

    return label
