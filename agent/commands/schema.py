"""schema: the JSON Schemas of what this agent reads and says: config, status, reports, MQTT messages and kinds of event.

Without a name it lists the names; `all` prints all of them in one object.
"""

from __future__ import annotations

import argparse

from agent.commands import _exit, _schemas
from agent.commands._call import Call
from agent.errors import BadRequest

EXAMPLES = """examples:
  agentctl schema
  agentctl schema config > agent.schema.json
  agentctl schema timer.late
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument(
        "name", nargs="?", metavar="NAME", help="config, status, birth, event, a kind as timer.late, ..., or all"
    )


def run(call: Call) -> int:
    """List the names, or print schemas (JSON in any case)."""
    name = call.option("name")
    known = _schemas.names()
    if name is None and not call.json:
        call.screen.line("\n".join(known))
    elif name is None:
        call.screen.json({"schema": "gatewarden.schema/1", "names": [*known]})
    elif name == "all":
        call.screen.json({"schema": "gatewarden.schema/1", "schemas": {each: _schemas.of(each) for each in known}})
    elif name in known:
        call.screen.json(_schemas.of(name))
    else:
        raise BadRequest(f"there is no schema {name!r}, known: {', '.join(known)}")
    return _exit.OK
