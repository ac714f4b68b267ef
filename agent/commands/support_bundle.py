"""support-bundle: collect redacted state into one archive for whoever helps, also when everything is broken.

Every part is collected on its own and within its own time; what fails is named in manifest.json and stops nothing. Passwords,
credentials in URLs, keys and the environment of workloads are taken out. The archive is readable by its owner alone.
Exits 0 when it was written.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from agent import atomic, regular
from agent.commands import _bundle, _collectors, _exit
from agent.commands._call import Call
from agent.commands._table import size, when
from agent.errors import ConfigError
from agent.linux.clock import SystemClock
from agent.model import Data, Json
from agent.place import Place

EXAMPLES = """examples:
  sudo agentctl support-bundle
  agentctl support-bundle -o /tmp/gw-17.tar.gz --json | jq .failed
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add its options."""
    parser.add_argument("-o", "--output", type=Path, metavar="FILE.tar.gz", help="where to write it (default: here, dated)")


def run(call: Call) -> int:
    """Collect, pack, and say what is missing."""
    stamp = when(SystemClock().wall()).replace(":", "").partition(".")[0]
    name = f"gatewarden-{_gateway(call)}-{stamp}Z"
    path = call.option("output") or Path(f"{name}.tar.gz")
    if kind := regular.odd(path):  # before collecting for seconds; what appears there meanwhile is replaced, not written to
        raise _exit.Usage(f"-o {path}: is {kind}, not a regular file: it is not replaced")
    bundle = _bundle.collect(_collectors.of(call), _collectors.known_secrets(call), call.screen.progress)
    atomic.write(path, _bundle.pack(name, bundle, SystemClock().wall()), 0o600, synced=True)
    failed: Data = dict[str, Json](bundle.failed)
    collected: list[Json] = [*sorted(bundle.files)]
    written = path.stat().st_size
    if call.json:
        head: Data = {"schema": "gatewarden.support-bundle/1", "file": str(path), "bytes": written}
        call.screen.json(head | {"collected": collected, "failed": failed})
        return _exit.OK
    call.screen.line(f"{path}  {size(written)}, {len(collected)} parts")
    for part, reason in bundle.failed.items():
        call.screen.note(f"without {part}: {reason}")
    return _exit.OK


def _gateway(call: Call) -> str:
    """Give the gateway's name, fit for a file name whatever the configuration says."""
    try:
        name = call.place().name
    except ConfigError:
        name = Place().name
    return "".join(char for char in name if char.isascii() and (char.isalnum() or char in "-_"))[:32] or "gateway"
