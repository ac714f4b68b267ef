"""probes: what looks into the kernel, what each costs, and why one is off; load and unload pin and remove them (root).

Without an action it lists what agentd runs. `load` loads the objects that are enabled (on a kernel without BTF it has BCC
compile them), attaches them and pins them under bpffs_dir, so that an agentd without any capability can read them.
"""

from __future__ import annotations

import argparse
import os
from functools import partial

from agent.commands import _exit, _known, _settings
from agent.commands._call import Call
from agent.commands._status_view import probes as probe_lines
from agent.commands._status_view import reasons, text
from agent.commands._table import table
from agent.errors import Refused
from agent.linux import programs
from agent.model import Data, Json
from agent.place import require_trust

EXAMPLES = """examples:
  agentctl probes
  agentctl probes --json | jq '.probes[] | select(.state != "ok")'
  sudo agentctl probes load
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "load", "unload"), default="list", help="what to do (default list)"
    )


def run(call: Call) -> int:
    """List, load or unload."""
    actions = {"list": _list, "load": _load, "unload": _unload}
    return actions[call.option("action")](call)


def _list(call: Call) -> int:
    def document(status: Data) -> Data:
        return {"schema": "gatewarden.probes/1", "probes": status["probes"]}

    return _known.show(call, document, partial(probe_lines, call.screen))


def _load(call: Call) -> int:
    _need_root(call, "load")
    results: list[Data] = [
        {"name": one.probe, "state": one.state, "reason": one.reason, "remedy": one.remedy}
        for one in call.loader().load(_settings.of(call))
    ]
    if call.json:
        call.screen.json({"schema": "gatewarden.probes/1", "probes": list[Json](results)})
    else:
        header, *lines = table(call.screen, ("PROBE", "STATE"), [(text(row["name"]), text(row["state"])) for row in results])
        for row, line in zip([None, *results], [header, *lines], strict=True):
            call.screen.line(line)
            for reason in reasons(call.screen, row or {}):
                call.screen.line(reason)
    failed = [row for row in results if row["state"] == "failed"]
    return _exit.OK if not failed else _exit.DEGRADED if len(failed) < len(results) else _exit.UNKNOWN


def _unload(call: Call) -> int:
    _need_root(call, "unload")
    removed = list(call.loader().unload(_settings.of(call)))
    if call.json:
        call.screen.json({"schema": "gatewarden.probes/1", "removed": list[Json](removed)})
    else:
        call.screen.line("\n".join(f"removed {text(name)}" for name in removed) or "nothing was loaded")
    return _exit.OK


def _need_root(call: Call, action: str) -> None:
    if os.geteuid() != 0:
        line = programs.load_probes(call.config, action)
        raise Refused(f"probes {action} needs root (CAP_BPF, CAP_PERFMON and a bpffs to pin in); {line}")
    require_trust(call.config)
