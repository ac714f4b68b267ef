"""The one check runner, run here and over what agentd says of itself when it runs."""

from __future__ import annotations

from pathlib import Path

from agent import checks, config
from agent import place as _place
from agent.checks import Check
from agent.commands import _status
from agent.config import Paths
from agent.errors import BadRequest, Busy, ConfigError, Problem, Refused
from agent.linux import facts
from agent.model import Data, Json
from agent.place import DEFAULT_CONFIG, Place

SCHEMA = "gatewarden.doctor/1"


def result(path: Path) -> Data:
    """Give the JSON of `agentctl doctor`. A bad configuration at `path` and a silent agentd are findings, nothing raises."""
    try:
        place = _place.find(path)
    except ConfigError:
        place = Place()
    status, more = _agentd(place)
    paths = Paths(state_dir=place.state_dir, runtime_dir=place.runtime_dir, bpffs_dir=place.bpffs_dir)
    absent = str(path) if _by_default(path) else ""
    found = (*checks.run(facts.read(paths, config=path, btf_path=place.btf_path), status, _problems(path), absent), *more)
    return {"schema": SCHEMA, "state": checks.verdict(found), "checks": [*(_plain(check) for check in found)]}


def _agentd(place: Place) -> tuple[Data | None, tuple[Check, ...]]:
    try:
        status = _status.fetch_or_last(place)
    except Busy as error:
        remedy = "try again; if it lasts, something keeps its connections: ss -xp | grep control.sock"
        return None, (Check("probes", "control socket", "unknown", str(error), remedy),)
    except (Refused, BadRequest) as error:
        remedy = "run it as root or as a member of the group gatewarden, with the agentctl of the same version"
        return None, (Check("probes", "control socket", "unknown", str(error), remedy),)
    return (None if status.get("stale_s", 0) is None else status), ()


def _by_default(path: Path) -> bool:
    return path == DEFAULT_CONFIG and not path.exists()


def _problems(path: Path) -> tuple[Problem, ...]:
    if _by_default(path):
        return ()
    try:
        config.check(path)
    except ConfigError as error:
        return error.problems
    return ()


def _plain(check: Check) -> Json:
    return {"group": check.group, "name": check.name, "state": check.state, "reason": check.reason, "remedy": check.remedy}
