"""agent.toml: schema, check and export. Importing this costs no pydantic; `check` and `schema` do, when called.

agentd runs `python -m agent.config FILE` as a short-lived child and rebuilds its one JSON line with `from_plain`.
"""

from __future__ import annotations

from pathlib import Path

from agent.config.constraints import Pattern, redact
from agent.config.model import (
    Bpf,
    Budget,
    Config,
    Gateway,
    Mcu,
    Metrics,
    Mqtt,
    OpenSet,
    Outbox,
    Paths,
    Stream,
    Tls,
    Watchdog,
)
from agent.config.plain import from_plain, to_plain
from agent.config.work import Device, HealthProbe, Workload
from agent.model import Data

__all__ = [
    "DEFAULT_PATH",
    "Bpf",
    "Budget",
    "Config",
    "Device",
    "Gateway",
    "HealthProbe",
    "Mcu",
    "Metrics",
    "Mqtt",
    "OpenSet",
    "Outbox",
    "Paths",
    "Pattern",
    "Stream",
    "Tls",
    "Watchdog",
    "Workload",
    "check",
    "from_plain",
    "redact",
    "schema",
    "to_plain",
]

DEFAULT_PATH = Path("/etc/gatewarden/agent.toml")


def check(path: Path) -> Config:
    """Read and check a file. Raises ConfigError with *all* its problems, in the order of the file. Imports pydantic."""
    from agent.config import checker  # noqa: PLC0415 - agentd and `agentctl status` must not hold it

    return checker.check(path)


def schema() -> Data:
    """Give the JSON Schema of the file, with the options of every probe and detector there is. Imports pydantic."""
    from agent.config import checker  # noqa: PLC0415 - see above

    return checker.schema()
