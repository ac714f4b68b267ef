"""Orders to whoever is the parent of a workload: the keeper for a command, the broker for a unit or a container."""

from __future__ import annotations

from agent.actions._tools import Recovery, Target
from agent.errors import Refused
from agent.model import Data, Decision


def restart(one: Target, recovery: Recovery, reason: str) -> tuple[str, Data]:
    """Restart it by its parent. Raises GatewardenError if that fails."""
    if one.parent == "keeper":
        return order("restart", one, recovery, reason)
    said = recovery.units.unit("restart", one.by) if one.parent == "unit" else recovery.units.container_restart(one.by)
    return said or f"{one.parent} {one.by} restarted", {}


def order(verb: str, one: Target, recovery: Recovery, reason: str, profile: str | None = None) -> tuple[str, Data]:
    """Give the keeper an order. Raises Refused with the keeper's reason, or if the workload is not the keeper's."""
    if one.parent != "keeper":
        raise Refused(f"{one.name} is a {one.parent}: its parent takes no {verb!r} from us, only a restart")
    done = recovery.keeper.order(verb, one.name, reason, profile)
    if not done.ok:
        raise Refused(done.detail)
    return done.detail, {"keeper_ms": done.ms}


def why(decision: Decision) -> str:
    """Give the reason to pass on, short enough for any log."""
    return decision.reason[:500]
