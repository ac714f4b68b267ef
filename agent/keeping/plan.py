"""What the keeper needs of agent.toml: the `[[workload]]` tables with a command, from the checked plain data.

Not `agent.config`: its schema, the probes and the detectors would cost the keeper some MiB that it never uses again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

NOTIFY_SOCKET_BYTES = 107  # unix(7), without the NUL


@dataclass(frozen=True, slots=True)
class Plan:
    """One workload as configured; see `agent.config.model.Workload`."""

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    after: tuple[str, ...] = ()
    notify: str = "none"
    deadline_s: float = 10.0
    degrade: tuple[str, ...] = ()
    burst: int = 5
    window_s: float = 60.0


def plans(config: Mapping[str, Any]) -> tuple[Plan, ...]:
    """Give the plans in the file's order, each `after` without those that are not ours to start."""
    rows = [row for row in config.get("workload", ()) if row.get("command")]
    ours = {row["name"] for row in rows}
    return tuple(_plan(row, ours) for row in rows)


def _plan(row: Mapping[str, Any], ours: set[str]) -> Plan:
    restart = row.get("restart", {})
    return Plan(
        row["name"],
        tuple(row["command"]),
        row.get("env", {}),
        tuple(name for name in row.get("after", ()) if name in ours),
        row.get("notify", "none"),
        float(row.get("deadline_s", 10.0)),
        tuple(row.get("degrade", ())),
        int(restart.get("burst", 5)),
        float(restart.get("window_s", 60.0)),
    )


@dataclass(frozen=True, slots=True)
class Rooms:
    """The keeper's files, all in one folder."""

    folder: Path

    @property
    def socket(self) -> Path:
        """Where agentd subscribes and orders."""
        return self.folder / "keeper.sock"

    @property
    def memory(self) -> Path:
        """What the next keeper needs to adopt the workloads."""
        return self.folder / "workloads.json"

    def notify(self, name: str) -> Path:
        """Where workload `name` says how it is."""
        return self.folder / f"notify-{name}.sock"

    def profile(self, name: str) -> Path:
        """Where workload `name` reads which profile it is to use; empty: the full one."""
        return self.folder / f"profile-{name}"

    def environment(self, plan: Plan, profile: str) -> dict[str, str]:
        """Give what the keeper itself puts into the environment of a workload."""
        names = {"NOTIFY_SOCKET": str(self.notify(plan.name)), "GATEWARDEN_WORKLOAD": plan.name}
        names |= {"GATEWARDEN_PROFILE_FILE": str(self.profile(plan.name)), "GATEWARDEN_PROFILE": profile}
        return names | ({"WATCHDOG_USEC": str(int(plan.deadline_s * 1e6))} if plan.notify == "watchdog" else {})

    def too_long(self, names: Sequence[str]) -> str:
        """Say which notify socket's path does not fit into a unix address; empty if all do."""
        over = [str(self.notify(name)) for name in names if len(bytes(self.notify(name))) > NOTIFY_SOCKET_BYTES]
        return f"{over[0]}: longer than {NOTIFY_SOCKET_BYTES} bytes; a shorter runtime_dir or workload name" if over else ""


def rooms(config: Mapping[str, Any]) -> Rooms:
    """Give where the keeper's files are."""
    return Rooms(Path(config["paths"]["runtime_dir"]) / "keeper")
