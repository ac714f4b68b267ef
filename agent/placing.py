"""Kernel addresses that a probe needs in its maps: found and filled in by the loader alone, as agentd must not choose them.

Which probe needs some says its module by `placed` (`kernelnames.Placed`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

from agent.collider import target
from agent.collider.symbols import Symbols
from agent.errors import BadRequest, BpfError, LoadFailed, NotPermitted, Unsupported
from agent.kernelnames import Placed, Placement
from agent.linux import kallsyms
from agent.linux.bpf import Map, obj_get, possible_cpus
from agent.ports import Probe


class Kallsyms:
    """`kernelnames.KernelNames` by a table of symbols."""

    def __init__(self, symbols: Symbols) -> None:
        """Take the symbols."""
        self._symbols = symbols

    def data(self, place: str, length: int) -> int:
        """Give the address of `length` bytes of kernel data. Raises BadRequest with the nearest names, or why it is no data."""
        aim = target.parse(f"{place}:{length}")
        if aim.through or not aim.name:
            raise BadRequest(f"{place}: want [MODULE:]SYMBOL[+OFFSET]")
        return target.place(aim, self._symbols, lambda _address: None).spot.address

    def function(self, name: str) -> int:
        """Give the address of a function. Raises BadRequest with the nearest names, or if several are called so."""
        return self._symbols.function(name).address


def _names() -> Kallsyms:
    try:
        with kallsyms.PATH.open(encoding="ascii", errors="replace") as lines:
            return Kallsyms(Symbols(lines))
    except NotPermitted as error:
        remedy = "give the loader CAP_SYSLOG (docs/races.md), with kernel.kptr_restrict at most 1"
        raise NotPermitted(error.reason, remedy) from error
    except OSError as error:
        raise Unsupported(f"{kallsyms.PATH}: {error.strerror}", "a kernel with CONFIG_KALLSYMS_ALL") from error


def wanted(probe: Probe, options: object) -> Placement:
    """Give what the maps of `probe` shall hold; nothing for most probes. Raises a ProbeError."""
    ask = cast("Placed | None", getattr(probe, "placed", None))
    return ask(options, _names) if ask else Placement({}, ())


def fill(maps: Mapping[str, int], placement: Placement) -> None:
    """Write it; `maps` are the fds of a new object by name. Raises LoadFailed."""
    for name, items in placement.maps.items():
        with closing(Map(os.dup(maps[name]), possible_cpus())) as found:
            try:
                for key, value in items.items():
                    found.update(key, value)
            except BpfError as error:
                raise LoadFailed(f"map {name} cannot be filled: {error}", "report this kernel") from error


def holds(folder: Path, placement: Placement) -> bool:
    """Whether what is pinned in `folder` holds just that; False also if it cannot be read."""
    try:
        for name, items in placement.maps.items():
            with closing(Map(obj_get(folder / name, read_only=True), possible_cpus())) as found:
                if dict(found.items()) != dict(items):
                    return False
    except BpfError:
        return False
    return True
