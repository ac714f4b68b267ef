"""Measure the budgets of the design, and print one table: measured, must, aim.

    python -m tests.bench [--quick] [--rows GLOB] [--json] [--list]

Exit code 0 whatever the figures are; 1 if nothing could be measured; 2 on wrong arguments. As root it measures everything
(about 45 minutes, with --quick 6); what the machine lacks is named in the table.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import cast

from agent import checks
from agent.linux import facts
from agent.model import Data
from tests.bench import agentctl, broker, cost, deadlines, death, hackbench, idle, outbox, races, recovery, replace, startup
from tests.bench.plan import Family, Plan, say
from tests.bench.table import Row, lines, number, plain, unmeasured
from tests.conftest import lacking

FAMILIES = cast(
    "tuple[Family, ...]", (startup, agentctl, cost, hackbench, death, deadlines, replace, recovery, broker, outbox, races, idle)
)
NOTHING, USAGE = 1, 2


def selected(glob: str) -> list[tuple[Family, list[str]]]:
    """Give the families that have a row whose name `glob` matches, with these names."""
    found = [(family, fnmatch.filter(family.ROWS, glob)) for family in FAMILIES]
    return [(family, names) for family, names in found if names]


def conditions() -> Data:
    """Give what the figures depend on."""
    tier = checks.tier(facts.read())
    peer = (
        subprocess.run(["bpftrace", "--version"], capture_output=True, text=True, check=False)
        if shutil.which("bpftrace")
        else None
    )
    return {
        "kernel": os.uname().release,
        "machine": os.uname().machine,
        "cpus": os.cpu_count(),
        "load_average": [round(value, 2) for value in os.getloadavg()],
        "tier": f"{tier.letter}: {tier.reason}",
        "python": sys.version.split()[0],
        "bpftrace": peer.stdout.strip() if peer else "not installed",
    }


def measured(family: Family, names: Sequence[str], plan: Plan) -> list[Row]:
    """Run one family; whatever goes wrong becomes the reason of the rows that it leaves out."""
    missing = [f"{marker}: {why}" for marker in family.NEEDS if (why := lacking(marker))]
    if missing:
        return unmeasured(names, "; ".join(missing))
    rows: list[Row] = []
    why = "the measurement left it out"
    try:
        for row in family.measure(plan):
            if row.name in names:
                rows.append(row)
                say(f"      {row.name}: {number(row.measured, row.unit)}")
    except Exception as error:  # noqa: BLE001 - the other families are to run
        why = f"{type(error).__name__}: {str(error).strip()[-300:]}"  # the last words of a log say most
    return rows + unmeasured([name for name in names if name not in {row.name for row in rows}], why)


def _ended(_number: int, _frame: object) -> None:
    raise SystemExit(128 + signal.SIGTERM)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="shorter and coarser")
    parser.add_argument("--rows", default="*", metavar="GLOB", help="only rows of this name, as 'flash.*'")
    parser.add_argument("--json", action="store_true", help="the table as JSON")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    return parser.parse_args()


def main() -> int:
    """Measure and print."""
    arguments = _arguments()
    chosen = selected(arguments.rows)
    if not chosen:
        say(f"no row is named {arguments.rows}; --list shows all")
        return USAGE
    if arguments.list:
        print("\n".join(name for _family, names in chosen for name in names))
        return 0
    signal.signal(signal.SIGTERM, _ended)  # so that everything that was started is ended
    plan = Plan(arguments.quick)
    found = conditions()
    say("\n".join(f"{key:<13}{value}" for key, value in found.items()))
    begun, rows = time.monotonic(), list[Row]()
    for at, (family, names) in enumerate(chosen, 1):
        say(f"[{at}/{len(chosen)}] {family.TITLE}: about {family.seconds(plan)} s")
        rows += measured(family, names, plan)
    say(f"{time.monotonic() - begun:.0f} s, load average now {os.getloadavg()[0]:.2f}\n")
    if arguments.json:
        print(json.dumps({"schema": "gatewarden.bench/1", "conditions": found, "rows": [plain(row) for row in rows]}, indent=1))
    else:
        print("\n".join(lines(rows)))
    return 0 if any(row.measured is not None for row in rows) else NOTHING


if __name__ == "__main__":
    sys.exit(main())
