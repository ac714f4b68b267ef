"""Whose process that was: deaths that the kernel tells of, with the name of the workload that they belong to."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from agent.config import Config, Workload
from agent.model import Data, Sighting

_COMM_MAX = 15  # TASK_COMM_LEN less the NUL
_PIDS = 1024  # that are remembered: a death may be told after the process that replaced it
# Whoever else runs a script has these names too.
_INTERPRETER = re.compile(r"(?:python|pypy|bash|dash|sh|perl|ruby|node|java|lua|php|env|sudo|setpriv)[0-9.]*")


class Owners:
    """By the pids that their parent tells.

    A child that was killed for memory is known by its command's name alone, where that is the name of one workload's command
    and no interpreter's: what cannot be known is told as nobody's.
    """

    def __init__(self, workloads: Sequence[Workload]) -> None:
        """Know no process yet."""
        self._workloads = {one.name: one for one in workloads}
        self._comms = _telling(workloads)
        self._pids: OrderedDict[int, Workload] = OrderedDict()

    def note(self, name: str, pid: int) -> None:
        """Take in that `pid` is the main process of workload `name`."""
        self._pids[pid] = self._workloads[name]
        self._pids.move_to_end(pid)
        if len(self._pids) > _PIDS:
            self._pids.popitem(last=False)

    def label(self, sighting: Sighting) -> Sighting:
        """Write the workload's name, and whether it is required, into a `proc.exit`."""
        if sighting.kind != "proc.exit":
            return sighting
        workload = self._pids.get(int(str(sighting.data["tgid"])))
        if workload is None and sighting.data.get("oom"):
            workload = self._comms.get(str(sighting.data["comm"]))
        if workload is None:
            return sighting
        known: Data = {"workload": workload.name, "required": workload.required}
        return replace(sighting, subject=workload.name, data=sighting.data | known)


def _telling(workloads: Sequence[Workload]) -> dict[str, Workload]:
    """Give the workloads by the names of commands that tell of them."""
    named = [(PurePath(one.command[0]).name[:_COMM_MAX], one) for one in workloads if one.command]
    counts = Counter(comm for comm, _one in named)
    return {comm: one for comm, one in named if counts[comm] == 1 and not _INTERPRETER.fullmatch(comm)}


def watched(settings: Config) -> tuple[str, ...]:
    """Give the comms whose deaths are reported."""
    listed: tuple[str, ...] = getattr(settings.probes.options.get("process_exit"), "comm", ())
    return listed
