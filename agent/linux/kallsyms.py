"""Kernel addresses to names by /proc/kallsyms, in one pass and constant memory (the file has 100,000 to 250,000 lines)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path

from agent.errors import GatewardenError

PATH = Path("/proc/kallsyms")
FAR = 1 << 20  # no function is longer; beyond it the address lies in a gap, or in user space


def resolve(lines: Iterable[str], addresses: Sequence[int]) -> list[str | None]:
    """Give `name`, `name+0x1f` or `name+0x1f [module]` for each of `addresses`, None where no symbol is near.

    `lines` are those of kallsyms, in any order (those of modules are unsorted). Raises GatewardenError if all its
    addresses are zero: the kernel hides them from this process.
    """
    wanted = sorted(set(addresses))
    best = [(0, "")] * len(wanted)
    highest = 0
    for line in lines:
        start = _start(line)
        highest = max(highest, start)
        index = bisect_left(wanted, start)  # the first address that it could be the name of
        if index < len(wanted) and start > best[index][0]:
            best[index] = (start, line)
    if not highest:
        raise GatewardenError("kernel addresses are hidden: needs CAP_SYSLOG, and kernel.kptr_restrict at most 1")
    names: dict[int, str | None] = {}
    nearest = (0, "")
    for address, candidate in zip(wanted, best, strict=True):
        nearest = max(nearest, candidate)
        names[address] = _label(address - nearest[0], nearest[1])
    return [names[address] for address in addresses]


def read(addresses: Sequence[int], path: Path = PATH) -> list[str | None]:
    """Resolve `addresses` by the running kernel's table. Raises GatewardenError if it cannot be read or hides them."""
    try:
        with path.open(encoding="ascii", errors="replace") as lines:
            return resolve(lines, addresses)
    except OSError as error:
        raise GatewardenError(f"{path}: {error.strerror}") from error


def _start(line: str) -> int:
    """Give the address of `ffffffff81000000 T _stext  [module]`, 0 for a line of another form."""
    try:
        return int(line.partition(" ")[0], 16)
    except ValueError:
        return 0


def _label(offset: int, line: str) -> str | None:
    fields = line.split()
    if len(fields) < 3 or offset >= FAR:
        return None
    place = f"{fields[2]}+{offset:#x}" if offset else fields[2]
    return f"{place} {fields[3]}" if len(fields) > 3 else place
