"""Checks of the workloads: whether each works, whether that is proven, and who else restarts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agent.checks._base import Check
from agent.linux.facts import Facts
from agent.model import Data, State
from agent.narrow import rows

# Of a required workload; of another one a critical state is a degraded one.
STATES: Mapping[str, State] = {"failed": "critical", "stopped": "critical", "backoff": "degraded", "unknown": "unknown"}
_KEEPER = "run it with the same configuration: python -m agent.keeper --config FILE"


def checks(facts: Facts, status: Data) -> Iterator[Check]:
    """Yield the checks of the group."""
    yield from live(status, facts)
    for row in _listed(status):
        name, required = str(row.get("name")), row.get("required") is not False
        if row.get("supervised"):
            reason = (
                f"two masters: systemd restarts {row.get('by') or name} itself, so it is only watched until systemd gives up"
            )
            yield Check("workloads", name, "degraded", reason, "Restart=no in a drop-in leaves it to this agent alone")
        elif required and row.get("proven") is False:
            reason = "required, and not proven to work: it counts as working while its process lives"
            yield Check("workloads", name, "degraded", reason, 'give it notify = "watchdog" or a probe (docs/watchdog.md)')


def live(status: Data, facts: Facts) -> Iterator[Check]:
    """Yield what agentd can say at any moment: safe mode, an absent keeper, workloads that do not work."""
    listed = _listed(status)
    if safe := status.get("safe_mode"):
        yield Check("workloads", "safe mode", "critical", str(safe), f"{facts.agentctl} status; mend what ends the boots")
    away = [row for row in listed if row.get("parent") == "keeper" and row.get("state") == "unknown" and row.get("reason")]
    if away:
        remedy = "systemctl start gatewarden-keeper" if facts.systemd else _KEEPER
        yield Check("workloads", "keeper", "critical", f"{len(away)} without a keeper: {away[0].get('reason')}", remedy)
    bad = [check for row in listed if (check := _state(row, facts)) is not None]
    yield from bad
    if not status or "stale_s" in status:
        yield Check("workloads", "states", "unknown", "agentd does not say", facts.start)
    elif not bad and not away:
        yield Check("workloads", "states", "ok", f"{len(listed)} as they should be" if listed else "none configured")


def _listed(status: Data) -> list[Data]:
    return [] if "stale_s" in status else rows(status, "workloads")


def _state(row: Data, facts: Facts) -> Check | None:
    found = STATES.get(str(row.get("state")), "ok")
    if found in {"ok", "unknown"} or row.get("hold_until") is not None:
        return None
    if row.get("required") is False:
        found = "degraded"
    reason = f"{row.get('state')}: {row.get('reason') or 'no reason told'}"
    return Check("workloads", str(row.get("name")), found, reason, f"{facts.agentctl} workloads")
