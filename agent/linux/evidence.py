"""What a snapshot reads from this machine: name -> reader. Each is bounded in time and raises what it cannot read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.errors import GatewardenError, NotRunning, Refused
from agent.linux import kallsyms, kmsg, procfs
from agent.linux.brokerclient import BrokerClient
from agent.model import Finding, Json

Reader = Callable[[Finding], Json]
BROKER_S = 1.0


def readers(broker: Path | None = None, root: Path = procfs.ROOT) -> Mapping[str, Reader]:
    """Give the readers of pressure, memory and kernel log; `broker` is its socket, for a process that may not read the log."""
    return {
        "pressure": lambda _finding: procfs.pressure_data(root),
        "meminfo": lambda _finding: _meminfo(root),
        "symbols": lambda finding: dict(symbols(finding, broker)),
        "kmsg": lambda _finding: list(kernel_log(broker, root)),
    }


def kernel_log(broker: Path | None = None, root: Path = procfs.ROOT) -> list[str]:
    """Give the newest 200 lines, by the broker's fd if we may not open the log. Raises GatewardenError with both reasons."""
    path = str(root / "dev/kmsg")
    try:
        return kmsg.last_lines(kmsg.open_kmsg(path))
    except OSError as error:
        own = f"{path}: {error.strerror}"
    if broker is None:
        raise GatewardenError(own)
    try:
        return kmsg.last_lines(BrokerClient(broker, BROKER_S).kmsg_fd())
    except (NotRunning, Refused, OSError) as error:
        raise GatewardenError(f"{own}; by the broker: {error}") from error


def _meminfo(root: Path) -> Json:
    found = procfs.read_meminfo(root)
    return None if found is None else dict(found)


def symbols(finding: Finding, broker: Path | None = None) -> dict[str, str]:
    """Give names for what the kernel left as addresses in the finding's stack (before 5.13 it resolves none itself)."""
    stack = finding.data.get("stack")
    frames = [frame for frame in stack if isinstance(frame, str)] if isinstance(stack, list) else []
    raw = {frame: int(frame, 16) for frame in frames if re.fullmatch(r"0x[0-9a-f]{1,16}", frame)}
    if not raw:
        return {}
    try:
        found = dict(zip(raw.values(), kallsyms.read(list(raw.values())), strict=True))
    except GatewardenError:
        if broker is None:
            raise
        found = dict(BrokerClient(broker, BROKER_S).symbols(list(raw.values())))
    return {frame: name for frame, address in raw.items() if (name := found.get(address)) is not None}
