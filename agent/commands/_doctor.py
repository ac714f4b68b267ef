"""The one check runner, run here and over what agentd says of itself when it runs."""

from __future__ import annotations

from agent import checks
from agent.checks import Check
from agent.commands import _status
from agent.commands._place import Place
from agent.config import Paths
from agent.errors import NotRunning
from agent.linux import facts
from agent.model import Data, Json

SCHEMA = "gatewarden.doctor/1"


def result(place: Place) -> Data:
    """Give the JSON of `agentctl doctor`. Raises Refused, BadRequest."""
    try:
        status: Data | None = _status.fetch(place)
    except NotRunning:
        status = None
    seen = facts.read(Paths(state_dir=place.state_dir, runtime_dir=place.runtime_dir, bpffs_dir=place.bpffs_dir))
    found = checks.run(seen, status)
    return {"schema": SCHEMA, "state": checks.verdict(found), "checks": [*(_plain(check) for check in found)]}


def _plain(check: Check) -> Json:
    return {"group": check.group, "name": check.name, "state": check.state, "reason": check.reason, "remedy": check.remedy}
