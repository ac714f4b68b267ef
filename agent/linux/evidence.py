"""What a snapshot reads from this machine: name -> reader. Each is bounded in time and raises what it cannot read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from agent.errors import GatewardenError, NotRunning, Refused
from agent.linux import kmsg, procfs
from agent.linux.brokerclient import BrokerClient
from agent.model import Finding, Json

Reader = Callable[[Finding], Json]
BROKER_S = 1.0


def readers(broker: Path | None = None, root: Path = procfs.ROOT) -> Mapping[str, Reader]:
    """Give the readers of pressure, memory and kernel log; `broker` is its socket, for a process that may not read the log."""
    return {
        "pressure": partial(_pressure, root),
        "meminfo": partial(_meminfo, root),
        "kmsg": partial(_kmsg, broker, root),
    }


def _pressure(root: Path, _finding: Finding) -> Json:
    return {name: None if one is None else asdict(one) for name, one in procfs.read_pressure(root).items()}


def _meminfo(root: Path, _finding: Finding) -> Json:
    found = procfs.read_meminfo(root)
    return None if found is None else dict(found)


def _kmsg(broker: Path | None, root: Path, _finding: Finding) -> Json:
    return list(kmsg.last_lines(_kmsg_fd(broker, str(root / "dev/kmsg"))))


def _kmsg_fd(broker: Path | None, path: str) -> int:
    try:
        return kmsg.open_kmsg(path)
    except OSError as error:
        own = f"{path}: {error.strerror}"
    if broker is None:
        raise GatewardenError(own)
    try:
        return BrokerClient(broker, BROKER_S).kmsg_fd()
    except (NotRunning, Refused) as error:
        raise GatewardenError(f"{own}; by the broker: {error}") from error
